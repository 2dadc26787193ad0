"""PPO's clipped surrogate (Schulman et al. 2017, eq. 7) with the dual clip for negative advantages (Ye et al. 2020,
eq. 5).

    L = max(−Â r, −Â clip(r, 1 − ε_l, 1 + ε_h)),    and where Â < 0:  min(L, −Â c)

r is taken against the recorded behaviour policy: with one update per batch it *is* π_old.
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from trainer.chain import Chain
from trainer.objectives.aggregation import token_mean
from trainer.objectives.protocol import OBJECTIVES, ActionTokens, TokenLoss


def clipped_surrogate(
    ratio: Tensor, advantages: Tensor, epsilon_low: float, epsilon_high: float, dual_clip: float | None
) -> TokenLoss:
    """ratio (with gradient), advantages: [n]. kept is False where the clip is active, so that no gradient passes."""
    plain = -advantages * ratio
    clipped = -advantages * ratio.clamp(1 - epsilon_low, 1 + epsilon_high)
    loss = torch.maximum(plain, clipped)
    kept = plain >= clipped
    if dual_clip is not None:
        ceiling = -advantages * dual_clip
        bound = (advantages < 0) & (loss > ceiling)
        loss, kept = torch.where(bound, ceiling, loss), kept & ~bound
    return TokenLoss(loss, kept.detach())


class PPOOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    epsilon_low: float = Field(0.2, gt=0, le=1, description="Lower clip: 1 − this.")
    epsilon_high: float = Field(0.2, gt=0, description="Upper clip: 1 + this.")
    dual_clip: float | None = Field(
        3.0, gt=1, description="Ceiling c of the ratio for negative advantages; null: none."
    )
    entropy_bonus: float = Field(0.0, ge=0, description="Weight of the entropy bonus.")


@OBJECTIVES.register("ppo", PPOOptions)
class PPO:
    def __init__(self, options: PPOOptions) -> None:
        self.options = options
        self.needs = frozenset({"entropy"} if options.entropy_bonus else ())

    def weights(self, chain: Chain) -> Tensor:
        return token_mean(chain)

    def token_loss(self, tokens: ActionTokens) -> TokenLoss:
        o = self.options
        surrogate = clipped_surrogate(
            tokens.log_ratio.exp(), tokens.advantages, o.epsilon_low, o.epsilon_high, o.dual_clip
        )
        return TokenLoss(surrogate.loss - o.entropy_bonus * tokens.entropy, surrogate.kept)
