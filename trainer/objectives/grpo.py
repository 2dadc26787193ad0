"""GRPO (Shao et al. 2024, eq. 3) and Dr. GRPO (Liu et al. 2025): the clipped surrogate, averaged over trajectories.

    grpo      1/B Σ_i 1/l_i Σ_t clipped(r_{i,t}, Â_i)
    dr-grpo   1/(B·L_max) Σ_i Σ_t clipped(r_{i,t}, Â_i)      a constant denominator: length changes no token's weight

Their advantages are the credits of the same names; their reference KL is the learner's (`reference_kl`).
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from trainer.chain import Chain
from trainer.objectives.aggregation import constant, trajectory_mean
from trainer.objectives.protocol import OBJECTIVES, ActionTokens, TokenLoss
from trainer.objectives.surrogate import clipped_surrogate


class GRPOOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    epsilon_low: float = Field(0.2, gt=0, le=1, description="Lower clip: 1 − this.")
    epsilon_high: float = Field(0.2, gt=0, description="Upper clip: 1 + this.")


@OBJECTIVES.register("grpo", GRPOOptions)
class GRPO:
    needs: frozenset[str] = frozenset()

    def __init__(self, options: GRPOOptions) -> None:
        self.options = options

    def weights(self, chain: Chain, truncated: Tensor) -> Tensor:
        return trajectory_mean(chain)

    def token_loss(self, tokens: ActionTokens) -> TokenLoss:
        o = self.options
        return clipped_surrogate(tokens.log_ratio.exp(), tokens.advantages, o.epsilon_low, o.epsilon_high)


class DrGRPOOptions(GRPOOptions):
    max_tokens: int = Field(8192, ge=1, description="L_max: the action-token budget of an episode.")


@OBJECTIVES.register("dr-grpo", DrGRPOOptions)
class DrGRPO(GRPO):
    def __init__(self, options: DrGRPOOptions) -> None:
        super().__init__(options)
        self.max_tokens = options.max_tokens

    def weights(self, chain: Chain, truncated: Tensor) -> Tensor:
        return constant(chain, self.max_tokens)
