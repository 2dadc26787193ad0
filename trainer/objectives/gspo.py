"""GSPO (Zheng et al. 2025): the ratio, and so the clip, of a whole sequence.

    s_i = exp( 1/l_i Σ_t log r_{i,t} ),    J = 1/B Σ_i min(s_i Â_i, clip(s_i, 1 − ε_l, 1 + ε_h) Â_i)

A sequence is one `Sequence` of the data contract: a compacted trajectory has several, which share its weight by their
length. The token form below has GSPO's gradient: s_{i,t} = sg(s_i) · π_θ / sg(π_θ).
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from trainer.chain import Chain
from trainer.objectives.aggregation import trajectory_mean
from trainer.objectives.protocol import OBJECTIVES, ActionTokens, TokenLoss
from trainer.objectives.surrogate import clipped_surrogate, sequence_mean


class GSPOOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    epsilon_low: float = Field(3e-4, gt=0, le=1, description="Lower clip of the sequence ratio: 1 − this.")
    epsilon_high: float = Field(4e-4, gt=0, description="Upper clip of the sequence ratio: 1 + this.")


@OBJECTIVES.register("gspo", GSPOOptions)
class GSPO:
    needs: frozenset[str] = frozenset({"sequences"})

    def __init__(self, options: GSPOOptions) -> None:
        self.options = options

    def weights(self, chain: Chain, truncated: Tensor) -> Tensor:
        return trajectory_mean(chain)

    def token_loss(self, tokens: ActionTokens) -> TokenLoss:
        log_s = sequence_mean(tokens.log_ratio.detach(), tokens.row)
        s = (log_s + tokens.logprobs - tokens.logprobs.detach()).exp()
        return clipped_surrogate(s, tokens.advantages, self.options.epsilon_low, self.options.epsilon_high)
