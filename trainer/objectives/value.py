"""The critic's loss per action token: ½ (V − R)², optionally with PPO's value clip.

½ max( (V − R)², (clip(V, V_old − c, V_old + c) − R)² )        (Schulman et al. 2017, as in the reference
implementation)
"""

from __future__ import annotations

import torch
from torch import Tensor


def value_loss(values: Tensor, returns: Tensor, old_values: Tensor | None = None, clip: float | None = None) -> Tensor:
    """values (with gradient), returns, old_values: [n]; returns [n]."""
    error = (values - returns) ** 2
    if clip is None or old_values is None:
        return 0.5 * error
    clipped = torch.clamp(values, old_values - clip, old_values + clip)
    return 0.5 * torch.maximum(error, (clipped - returns) ** 2)
