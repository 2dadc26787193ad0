"""The pieces that PPO and its descendants share: the clipped surrogate, and the ratio of a whole sequence."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.objectives.protocol import TokenLoss


def clipped_surrogate(
    ratio: Tensor, advantages: Tensor, epsilon_low: float, epsilon_high: float, dual_clip: float | None = None
) -> TokenLoss:
    """max(−Â r, −Â clip(r, 1 − ε_l, 1 + ε_h)), capped at −Â c where Â < 0 (Schulman et al. 2017, eq. 7; Ye et al. 2020, eq. 5).

    ratio (with gradient), advantages: [n]. kept is False where a clip is active, so that no gradient passes.
    """
    plain = -advantages * ratio
    clipped = -advantages * ratio.clamp(1 - epsilon_low, 1 + epsilon_high)
    loss, kept = torch.maximum(plain, clipped), plain >= clipped
    if dual_clip is not None:
        ceiling = -advantages * dual_clip
        capped = (advantages < 0) & (loss > ceiling)
        loss, kept = torch.where(capped, ceiling, loss), kept & ~capped
    return TokenLoss(loss, kept.detach())


def sequence_mean(flat: Tensor, row: Tensor) -> Tensor:
    """[n] → [n]: at each token, the mean over its sequence. row: int64[n], from 0."""
    rows = int(row.max()) + 1
    total = flat.new_zeros(rows).index_add(0, row, flat)
    return (total / torch.bincount(row, minlength=rows))[row]
