"""AdamW with clipped gradients, and the check that nothing which is not finite ever reaches a weight."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from trainer.config import LearnerConfig
from trainer.errors import DivergenceError
from trainer.ranks import whole


def adamw(groups: list[tuple[Iterable[nn.Parameter], float]], config: LearnerConfig) -> torch.optim.AdamW:
    """groups: (parameters, learning rate)."""
    return torch.optim.AdamW(
        [{"params": list(parameters), "lr": rate} for parameters, rate in groups],
        betas=config.betas,
        weight_decay=config.weight_decay,
        fused=True,
    )


def scheduled(step: int, config: LearnerConfig) -> float:
    """Share of the policy's learning rate that its schedule leaves for an update, after `step` others: warm-up, linear decay."""
    grown = min(1.0, (step + 1) / config.policy_warmup_steps) if config.policy_warmup_steps else 1.0
    left = max(0.0, 1 - step / config.policy_decay_steps) if config.policy_decay_steps else 1.0
    return min(grown, left)


def apply(optimizer: torch.optim.Optimizer, max_norm: float, loss: float, who: str, *, scale: float = 1.0) -> float:
    """Clip, step with `scale` times the learning rate, clear; the gradient norm before clipping.

    DivergenceError, with no step taken, where loss or norm is not finite.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    clipped = nn.utils.clip_grad_norm_(parameters, max_norm)
    norm = float(whole(clipped))
    if not (math.isfinite(loss) and math.isfinite(norm)):
        optimizer.zero_grad(set_to_none=True)
        raise DivergenceError(
            f"{who}: loss {loss}, gradient norm {norm}; no step taken",
            hint="resume with a smaller learning rate; ratio_max in metrics.jsonl shows how far the policy drifted",
        )
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] *= scale
    optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    return norm
