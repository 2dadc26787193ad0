"""Imitation: −log π of the demonstrated actions, every action token the same weight.

Advantages and ratios are not read. With a credit that has a critic, the same pass over demonstrations pre-trains the
values.
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from trainer.chain import Chain
from trainer.objectives.aggregation import token_mean
from trainer.objectives.protocol import OBJECTIVES, ActionTokens, TokenLoss


class SFTOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


@OBJECTIVES.register("sft", SFTOptions)
class SFT:
    needs: frozenset[str] = frozenset()

    def __init__(self, options: SFTOptions) -> None:
        self.options = options

    def weights(self, chain: Chain, truncated: Tensor) -> Tensor:
        return token_mean(chain)

    def token_loss(self, tokens: ActionTokens) -> TokenLoss:
        return TokenLoss(-tokens.logprobs, torch.ones_like(tokens.logprobs, dtype=torch.bool))
