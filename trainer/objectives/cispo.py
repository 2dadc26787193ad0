"""CISPO (MiniMax-M1, 2025, eq. 4): clip the weight, never the token; every token keeps a gradient.

    J = 1/N Σ sg(clip(r, 1 − ε_l, 1 + ε_h)) Â log π_θ

verl writes the upper bound as 1 + ε_h, as here; TRL's ε_h is the bound itself.
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from trainer.chain import Chain
from trainer.objectives.aggregation import token_mean
from trainer.objectives.protocol import OBJECTIVES, ActionTokens, TokenLoss


class CISPOOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    epsilon_low: float = Field(
        1.0, gt=0, le=1, description="Weights are at least 1 − this; 1 leaves them unbounded below."
    )
    epsilon_high: float = Field(4.0, gt=0, description="Weights are at most 1 + this.")


@OBJECTIVES.register("cispo", CISPOOptions)
class CISPO:
    needs: frozenset[str] = frozenset()

    def __init__(self, options: CISPOOptions) -> None:
        self.options = options

    def weights(self, chain: Chain, truncated: Tensor) -> Tensor:
        return token_mean(chain)

    def token_loss(self, tokens: ActionTokens) -> TokenLoss:
        weight = tokens.log_ratio.detach().exp().clamp(1 - self.options.epsilon_low, 1 + self.options.epsilon_high)
        loss = -weight * tokens.advantages * tokens.logprobs
        return TokenLoss(loss, torch.ones_like(weight, dtype=torch.bool))
