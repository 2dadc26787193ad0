"""What a step thought of single tokens, for people: which are rewarded, how far the policy has moved, what the critic saw.

Nothing here enters an update. The numbers go to the store beside the trajectories (`agentgym.store.credit`), and into the
metrics by position in the episode: the i-th tenth of an episode's calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agentgym.store.credit import TokenCredit
from trainer.batch import Batch

TENTHS = 10


@dataclass(frozen=True, slots=True, eq=False)
class StepTokens:
    """advantages, ratios (π_θ / π_behaviour before the last policy update): float[N]; kept: bool[N]; values: float[N], None
    without a critic."""

    advantages: Tensor
    ratios: Tensor
    kept: Tensor
    values: Tensor | None


def by_trajectory(batch: Batch, tokens: StepTokens) -> dict[str, TokenCredit]:
    """Cut at the trajectories of the batch, each in the order of its own action tokens."""
    lengths = batch.chain.lengths.tolist()

    def parts(flat: Tensor) -> list:
        return [part.numpy() for part in flat.detach().split(lengths)]

    values = [None] * len(lengths) if tokens.values is None else parts(tokens.values.float())
    cut = zip(
        batch.evidence,
        parts(tokens.advantages.float()),
        parts(tokens.ratios.float()),
        parts(tokens.kept),
        values,
        strict=True,
    )
    return {
        item.trajectory_id: TokenCredit(advantages, ratios, kept, value)
        for item, advantages, ratios, kept, value in cut
    }


def position_metrics(batch: Batch, advantages: Tensor) -> dict[str, float]:
    """advantage/i, advantage_size/i: mean and mean magnitude over the tokens of the i-th tenth of their episodes' calls."""
    last = torch.zeros(len(batch.evidence), dtype=torch.int64)
    last.scatter_reduce_(0, batch.chain.trajectory, batch.calls, "amax")
    tenth = (TENTHS * batch.calls).div(batch.chain.spread(last) + 1, rounding_mode="floor").clamp(max=TENTHS - 1)
    counts = tenth.bincount(minlength=TENTHS)
    found: dict[str, float] = {}
    for name, flat in (("advantage", advantages), ("advantage_size", advantages.abs())):
        sums = torch.zeros(TENTHS, dtype=torch.float64).index_add_(0, tenth, flat.double())
        found |= {f"{name}/{i}": float(sums[i] / counts[i]) for i in range(TENTHS) if counts[i]}
    return found
