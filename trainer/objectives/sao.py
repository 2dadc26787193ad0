"""SAO: single-rollout asynchronous optimisation (Hou et al. 2026, arXiv 2607.07508).

    J = E_t[ f(r_t) Â_t log π_θ(a_t|s_t) ],    f(r) = r if 1 − ε_l < r < 1 + ε_h else 0,    r_t = π_θ(a_t|s_t) /
    π_behaviour(a_t|s_t)

π_behaviour is the version that sampled that very token; there is no π_old. The bounds are strict and hold on both
sides whatever the sign of Â. f(r) is detached: it weighs the score function, it is not differentiated.
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from trainer.chain import Chain
from trainer.objectives.aggregation import token_mean
from trainer.objectives.protocol import OBJECTIVES, ActionTokens, TokenLoss


def inside_band(ratio: Tensor, epsilon_low: float, epsilon_high: float) -> Tensor:
    """bool: 1 − ε_l < r < 1 + ε_h, strict. Bounds are decimal: 1 − 0.8 is 0.2, not 0.19999999999999996."""
    return (ratio > round(1 - epsilon_low, 12)) & (ratio < round(1 + epsilon_high, 12))


class SAOOptions(BaseModel):
    """The paper's coding values by default; its mathematics values are 0.3 and 5.0 (`sao-math`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    epsilon_low: float = Field(0.8, gt=0, le=1, description="A token teaches only while its ratio is above 1 − this.")
    epsilon_high: float = Field(3.0, gt=0, description="A token teaches only while its ratio is below 1 + this.")


@OBJECTIVES.register("sao", SAOOptions)
@OBJECTIVES.register("sao-math", SAOOptions, epsilon_low=0.3, epsilon_high=5.0)
class SAO:
    needs: frozenset[str] = frozenset()

    def __init__(self, options: SAOOptions) -> None:
        self.options = options

    def weights(self, chain: Chain, truncated: Tensor) -> Tensor:
        return token_mean(chain)

    def token_loss(self, tokens: ActionTokens) -> TokenLoss:
        ratio = tokens.log_ratio.detach().exp()
        kept = inside_band(ratio, self.options.epsilon_low, self.options.epsilon_high)
        weight = torch.where(kept, ratio, 0.0)
        return TokenLoss(-weight * tokens.advantages * tokens.logprobs, kept)
