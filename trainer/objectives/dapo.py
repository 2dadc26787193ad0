"""DAPO's loss (Yu et al. 2025): clip-higher, the mean over tokens, and the overlong filter.

    1/N Σ_i Σ_t clipped(r_{i,t}, Â_i; 1 − 0.2, 1 + 0.28)

The filter gives trajectories that a budget cut no weight: their zero may only mean "not finished". An agent that
loops until it is cut is also filtered then, so watch `truncated_fraction`. Dynamic sampling and the soft overlong
punishment are the credit `dapo`.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from trainer.chain import Chain
from trainer.objectives.aggregation import token_mean
from trainer.objectives.grpo import GRPO, GRPOOptions
from trainer.objectives.protocol import OBJECTIVES


class DAPOOptions(GRPOOptions):
    epsilon_high: float = Field(0.28, gt=0, description="Upper clip: 1 + this.")
    overlong_filter: bool = Field(False, description="Give trajectories that a budget cut no weight.")


@OBJECTIVES.register("dapo", DAPOOptions)
class DAPO(GRPO):
    def __init__(self, options: DAPOOptions) -> None:
        super().__init__(options)
        self.overlong_filter = options.overlong_filter

    def weights(self, chain: Chain, truncated: Tensor) -> Tensor:
        weights = token_mean(chain)
        return torch.where(chain.spread(truncated), 0.0, weights) if self.overlong_filter else weights
