"""DRPO's objective: Σ c_i s_i with s_i the mean log probability of trajectory i; the coefficients c_i are the credit `drpo`.

Its gradient is that of the paper's J at the point where the coefficients were taken, so one update per batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.chain import Chain
from trainer.objectives.aggregation import trajectory_mean
from trainer.objectives.protocol import OBJECTIVES, ActionTokens, TokenLoss
from trainer.objectives.sft import SFTOptions


@OBJECTIVES.register("drpo", SFTOptions)
class DRPO:
    needs: frozenset[str] = frozenset()

    def __init__(self, options: SFTOptions) -> None:
        self.options = options

    def weights(self, chain: Chain, truncated: Tensor) -> Tensor:
        return trajectory_mean(chain)

    def token_loss(self, tokens: ActionTokens) -> TokenLoss:
        return TokenLoss(-tokens.advantages * tokens.logprobs, torch.ones_like(tokens.logprobs, dtype=torch.bool))
