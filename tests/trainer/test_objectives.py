"""Every objective by hand: the seed's numbers, stated coefficients, finite differences. Oracles: `test_objective_oracles.py`."""

from __future__ import annotations

import pytest
import torch

from trainer.chain import Chain
from trainer.errors import TrainConfigError
from trainer.objectives import OBJECTIVES, ActionTokens


def action_tokens(logprobs: torch.Tensor, behaviour: torch.Tensor, advantages: torch.Tensor, **more) -> ActionTokens:
    row = more.pop("row", torch.zeros(len(logprobs), dtype=torch.int64))
    return ActionTokens(logprobs, behaviour, advantages, row, more.pop("entropy", torch.zeros(len(logprobs))), **more)


def test_the_seeds_example_of_the_clip() -> None:
    """ε = 0.2, Â = 2, ρ = 1.3: the surrogate is 2.4 and passes no gradient."""
    logprobs = torch.tensor([1.3]).log().requires_grad_()
    result = OBJECTIVES.build("ppo").token_loss(action_tokens(logprobs, torch.zeros(1), torch.tensor([2.0])))
    assert -result.loss.item() == pytest.approx(2.4)
    assert torch.autograd.grad(result.loss.sum(), logprobs)[0].item() == 0
    assert result.kept.tolist() == [False]


def test_the_dual_clip_caps_only_negative_advantages() -> None:
    ratio, advantages = torch.tensor([5.0, 5.0, 2.0]), torch.tensor([-1.0, 1.0, -1.0])
    result = OBJECTIVES.build("ppo").token_loss(action_tokens(ratio.log(), torch.zeros(3), advantages))
    assert result.loss.tolist() == pytest.approx([3.0, -1.2, 2.0])
    assert result.kept.tolist() == [False, False, True]


def test_the_overlong_filter_silences_cut_trajectories_but_keeps_the_denominator() -> None:
    weights = OBJECTIVES.build("dapo", {"overlong_filter": True}).weights(
        Chain(torch.tensor([2, 2])), torch.tensor([True, False])
    )
    assert weights.tolist() == [0, 0, 0.25, 0.25]


def test_importance_weights_of_tis_icepop_and_cispo() -> None:
    ratio = torch.tensor([0.4, 0.5, 1.0, 5.0, 6.0])
    gradients = {}
    for name in ("tis", "icepop", "cispo", "reinforce"):
        logprobs = ratio.log().requires_grad_()
        loss = OBJECTIVES.build(name).token_loss(action_tokens(logprobs, torch.zeros(5), torch.ones(5))).loss
        gradients[name] = [round(-g, 4) for g in torch.autograd.grad(loss.sum(), logprobs)[0].tolist()]
    assert gradients == {
        "tis": [0.4, 0.5, 1.0, 2.0, 2.0],
        "icepop": [0.0, 0.5, 1.0, 5.0, 0.0],
        "cispo": [0.4, 0.5, 1.0, 5.0, 5.0],
        "reinforce": [1.0] * 5,
    }


def test_sapos_gradient_is_its_stated_coefficient() -> None:
    """w = 4p(1 − p) r Â with p = σ(τ(r − 1))."""
    ratio, advantages = torch.tensor([0.5, 1.0, 2.0, 1.5]).double(), torch.tensor([1.0, 1.0, 1.0, -1.0]).double()
    logprobs = ratio.log().requires_grad_()
    zeros = torch.zeros(4).double()
    loss = OBJECTIVES.build("sapo").token_loss(action_tokens(logprobs, zeros, advantages)).loss.sum()
    tau = torch.tensor([1.0, 1.0, 1.0, 1.05]).double()
    p = torch.sigmoid(tau * (ratio - 1))
    torch.testing.assert_close(-torch.autograd.grad(loss, logprobs)[0], 4 * p * (1 - p) * ratio * advantages)


def test_decoupled_ppo_caps_the_behaviour_weight() -> None:
    current = torch.zeros(2, requires_grad=True)
    tokens = action_tokens(current, torch.tensor([-1.0, -9.0]), torch.ones(2), proximal=torch.zeros(2))
    loss = OBJECTIVES.build("decoupled-ppo").token_loss(tokens).loss
    assert (-torch.autograd.grad(loss.sum(), current)[0]).tolist() == pytest.approx([torch.e, 5.0])


DIFFERENTIABLE = ["ppo", "grpo", "dr-grpo", "dapo", "sapo", "decoupled-ppo"]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_are_finite_differences_of_the_loss(name: str) -> None:
    generator = torch.Generator().manual_seed(5)
    behaviour = -torch.rand(20, generator=generator).double()
    logprobs = (behaviour + torch.randn(20, generator=generator).double() * 0.3).requires_grad_()
    advantages = torch.randn(20, generator=generator).double()
    objective = OBJECTIVES.build(name)

    def loss(current: torch.Tensor) -> torch.Tensor:
        tokens = action_tokens(current, behaviour, advantages, proximal=behaviour - 0.01)
        return objective.token_loss(tokens).loss

    assert torch.autograd.gradcheck(loss, logprobs)


def test_gspos_token_form_has_the_gradient_of_its_sequence_form() -> None:
    """Given the sequence objective written out, when both are differentiated, then gradients agree."""
    behaviour, logprobs = torch.zeros(5).double(), torch.tensor([1e-4, 2e-4, -1e-4, 3e-4, 5e-4]).double()
    row, advantages = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([1.0, 1.0, 1.0, -2.0, -2.0]).double()

    def sequence_form(current: torch.Tensor) -> torch.Tensor:
        s = torch.stack([current[:3].mean(), current[3:].mean()]).exp()
        a = torch.tensor([1.0, -2.0]).double()
        return -torch.minimum(s * a, s.clamp(1 - 3e-4, 1 + 4e-4) * a).mean()

    objective = OBJECTIVES.build("gspo")
    x, y = logprobs.clone().requires_grad_(), logprobs.clone().requires_grad_()
    weights = objective.weights(Chain(torch.tensor([3, 2])), torch.tensor([False, False]))
    token_loss = objective.token_loss(action_tokens(x, behaviour, advantages, row=row)).loss
    (expected,) = torch.autograd.grad(sequence_form(y), y)
    torch.testing.assert_close(torch.autograd.grad((weights * token_loss).sum(), x)[0], expected, rtol=1e-6, atol=1e-9)


def test_unknown_names_and_options_are_told_what_exists() -> None:
    with pytest.raises(TrainConfigError, match="did you mean 'grpo'"):
        OBJECTIVES.build("grop")
    with pytest.raises(TrainConfigError, match="did you mean 'dual_clip'"):
        OBJECTIVES.build("ppo", {"dualclip": 2.0})
    with pytest.raises(TrainConfigError, match="epsilon_low = 2"):
        OBJECTIVES.build("sao", {"epsilon_low": 2.0})
