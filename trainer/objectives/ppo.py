"""PPO (Schulman et al. 2017), with the dual clip for negative advantages (Ye et al. 2020) and an entropy bonus.

    L = max(−Â r, −Â clip(r, 1 − ε_l, 1 + ε_h)) − β H,    and where Â < 0 never above −Â c

r is taken against the recorded behaviour policy, which *is* π_old while every batch is sampled by the policy it
updates.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from trainer.chain import Chain
from trainer.objectives.aggregation import token_mean
from trainer.objectives.protocol import OBJECTIVES, ActionTokens, TokenLoss
from trainer.objectives.surrogate import clipped_surrogate


class PPOOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    epsilon_low: float = Field(0.2, gt=0, le=1, description="Lower clip: 1 − this.")
    epsilon_high: float = Field(0.2, gt=0, description="Upper clip: 1 + this.")
    dual_clip: float | None = Field(3.0, gt=1, description="Cap c of the ratio for negative advantages; null: none.")
    entropy_bonus: float = Field(0.0, ge=0, description="Weight β of the entropy bonus.")


@OBJECTIVES.register("ppo", PPOOptions)
class PPO:
    def __init__(self, options: PPOOptions) -> None:
        self.options = options
        self.needs = frozenset({"entropy"} if options.entropy_bonus else ())

    def weights(self, chain: Chain, truncated: Tensor) -> Tensor:
        return token_mean(chain)

    def token_loss(self, tokens: ActionTokens) -> TokenLoss:
        o = self.options
        clipped = clipped_surrogate(
            tokens.log_ratio.exp(), tokens.advantages, o.epsilon_low, o.epsilon_high, o.dual_clip
        )
        return TokenLoss(clipped.loss - o.entropy_bonus * tokens.entropy, clipped.kept)
