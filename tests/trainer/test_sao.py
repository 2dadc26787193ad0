"""The SAO objective: its gradient, its strict band, its denominator."""

from __future__ import annotations

import pytest
import torch

from trainer.chain import Chain
from trainer.objectives import OBJECTIVES, ActionTokens
from trainer.objectives.sao import inside_band


def tokens(logprobs: torch.Tensor, behaviour: torch.Tensor, advantages: torch.Tensor) -> ActionTokens:
    zeros = torch.zeros(len(logprobs), dtype=torch.int64)
    return ActionTokens(logprobs, behaviour, advantages, zeros, torch.zeros(len(logprobs)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_band_is_strict_at_both_bounds(dtype: torch.dtype) -> None:
    low, high = torch.tensor([0.2, 4.0], dtype=dtype)
    edge = torch.stack([low, torch.nextafter(low, high), torch.nextafter(high, low), high])
    assert inside_band(edge, 0.8, 3.0).tolist() == [False, True, True, False]


def test_the_gradient_is_the_ratio_times_the_advantage_inside_and_zero_outside() -> None:
    ratio = torch.tensor([0.1, 0.5, 1.0, 3.9, 7.0, float("inf")])
    behaviour = torch.zeros(6)
    advantages = torch.tensor([1.0, -2.0, 3.0, 1.0, -1.0, -1.0])
    logprobs = ratio.log().requires_grad_()
    result = OBJECTIVES.build("sao").token_loss(tokens(logprobs, behaviour, advantages))
    (gradient,) = torch.autograd.grad(result.loss[torch.isfinite(result.loss)].sum(), logprobs)
    assert result.kept.tolist() == [False, True, True, True, False, False]
    torch.testing.assert_close(gradient, -torch.tensor([0.0, 0.5, 1.0, 3.9, 0.0, 0.0]) * advantages)


def test_rejection_does_not_shrink_the_denominator() -> None:
    weights = OBJECTIVES.build("sao").weights(Chain(torch.tensor([3, 1])), torch.tensor([False, True]))
    assert weights.tolist() == [0.25] * 4


@pytest.mark.parametrize("seed", range(3))
def test_its_gradient_is_verls_icepop(verl, random_chain, seed: int) -> None:
    """verl's bypass mode with token IcePop over (0.2, 4) is SAO's gradient; its bounds are inclusive, ours strict."""
    from verl.trainer.config.algorithm import RolloutCorrectionConfig
    from verl.workers.config import ActorConfig

    mask, lengths = random_chain(seed)
    generator = torch.Generator().manual_seed(seed)
    behaviour = -torch.rand(mask.shape, generator=generator) * 3
    current = (behaviour + torch.randn(mask.shape, generator=generator) * 1.2).requires_grad_()
    advantages = torch.randn(mask.shape, generator=generator)
    config = ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        policy_loss={
            "rollout_correction": RolloutCorrectionConfig.bypass_pg_token_icepop(threshold=4.0, threshold_lower=0.2)
        },
    )
    loss, _ = verl.compute_policy_loss_bypass_mode(
        old_log_prob=behaviour,
        log_prob=current,
        advantages=advantages,
        response_mask=mask.float(),
        loss_agg_mode="token-mean",
        config=config,
    )
    (expected,) = torch.autograd.grad(loss, current)

    ours = current.detach()[mask].requires_grad_()
    objective = OBJECTIVES.build("sao")
    result = objective.token_loss(tokens(ours, behaviour[mask], advantages[mask]))
    (gradient,) = torch.autograd.grad((objective.weights(Chain(lengths), lengths < 0) * result.loss).sum(), ours)
    assert 0 < result.kept.float().mean() < 1
    torch.testing.assert_close(gradient, expected[mask], rtol=1e-5, atol=1e-7)
