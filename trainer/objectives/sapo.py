"""SAPO (Gao et al. 2025): a soft gate in place of the clip.

    J = 1/B Σ_i 1/l_i Σ_t (4/τ) σ(τ (r − 1)) Â,    τ = τ⁺ where Â > 0, else τ⁻

Its gradient weighs r Â by 4p(1 − p), p = σ(τ (r − 1)): 1 on policy, fading smoothly on both sides, faster where τ is
larger.
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from trainer.chain import Chain
from trainer.objectives.aggregation import trajectory_mean
from trainer.objectives.protocol import OBJECTIVES, ActionTokens, TokenLoss


class SAPOOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    tau_positive: float = Field(1.0, gt=0, description="Steepness of the gate for positive advantages.")
    tau_negative: float = Field(1.05, gt=0, description="Steepness of the gate for all others.")


@OBJECTIVES.register("sapo", SAPOOptions)
class SAPO:
    needs: frozenset[str] = frozenset()

    def __init__(self, options: SAPOOptions) -> None:
        self.options = options

    def weights(self, chain: Chain, truncated: Tensor) -> Tensor:
        return trajectory_mean(chain)

    def token_loss(self, tokens: ActionTokens) -> TokenLoss:
        tau = torch.where(tokens.advantages > 0, self.options.tau_positive, self.options.tau_negative)
        gate = torch.sigmoid(tau * (tokens.log_ratio.exp() - 1)) * 4 / tau
        return TokenLoss(-gate * tokens.advantages, torch.ones_like(gate, dtype=torch.bool))
