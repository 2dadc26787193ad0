"""The fused head against plain autograd on the whole table of logits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from trainer import head
from trainer.objectives import OBJECTIVES, ActionTokens

TOKENS, WIDTH, VOCABULARY = 23, 16, 50


def given(bias: bool) -> head.Tokens:
    torch.manual_seed(1)
    return head.Tokens(
        torch.randn(TOKENS, WIDTH, requires_grad=True),
        torch.randn(VOCABULARY, WIDTH, requires_grad=True),
        torch.randn(VOCABULARY, requires_grad=True) if bias else None,
        torch.randint(0, VOCABULARY, (TOKENS,)),
        torch.rand(TOKENS) + 0.5,
    )


def plainly(tokens: head.Tokens) -> tuple[Tensor, Tensor]:
    logits = torch.nn.functional.linear(tokens.hidden, tokens.weight, tokens.bias) / tokens.temperature[:, None]
    log = logits.log_softmax(-1)
    return log.gather(1, tokens.targets[:, None])[:, 0], -(log.exp() * log).sum(-1)


@pytest.fixture(autouse=True, params=[4, 1000])
def chunk(request, monkeypatch) -> None:
    monkeypatch.setattr(head, "CHUNK", request.param)


@pytest.mark.parametrize("bias", [False, True])
def test_scores_are_those_of_the_softmax(bias: bool) -> None:
    tokens = given(bias)
    for found, expected in zip(head.score(tokens), plainly(tokens), strict=True):
        torch.testing.assert_close(found, expected.detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("name", "options"), [("ppo", {"entropy_bonus": 0.3}), ("gspo", {}), ("sao", {}), ("sapo", {})]
)
def test_gradients_are_those_of_the_whole_table_of_logits(name: str, options: dict, bias: bool) -> None:
    """Given an objective per token, with the entropy, or of whole sequences, then nothing of its gradient is lost."""
    objective = OBJECTIVES.build(name, options)
    advantages, row = torch.linspace(-2, 2, TOKENS), torch.arange(TOKENS) // 6
    behaviour = plainly(given(bias))[0].detach() + 1e-4 * torch.randn(TOKENS)

    def loss_of(logprob: Tensor, entropy: Tensor, part: slice) -> Tensor:
        tokens = ActionTokens(logprob, behaviour[part], advantages[part], row[part], entropy)
        return (objective.token_loss(tokens).loss * torch.linspace(0.5, 1, TOKENS)[part]).sum()

    fused, plain = given(bias), given(bias)
    loss, logprobs, entropies = head.loss(
        fused, loss_of, entropy_gradient="entropy" in objective.needs, whole="sequences" in objective.needs
    )
    assert not logprobs.requires_grad
    assert not entropies.requires_grad
    (3 * loss).backward()
    expected = loss_of(*plainly(plain), slice(0, TOKENS))
    (3 * expected).backward()
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-5, atol=1e-5)
    for one, other in ((fused.hidden, plain.hidden), (fused.weight, plain.weight), (fused.bias, plain.bias)):
        if one is not None and other is not None:
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)


def test_a_frozen_head_gets_no_gradient() -> None:
    tokens = given(bias=False)
    tokens.weight.requires_grad_(False)
    head.loss(tokens, lambda logprob, entropy, part: logprob.sum())[0].backward()
    assert tokens.weight.grad is None
    assert tokens.hidden.grad is not None
