"""The score function under a detached weight w(r): what remains of a policy gradient without a trust region.

J = 1/N Σ w(r) Â log π_θ

reinforce   w = 1                               (Williams 1992): on-policy data only
tis         w = min(r, C)                       truncated importance sampling (Yao et al. 2025)
icepop      w = r if low ≤ r ≤ high else 0      (Ling team 2025); SAO's form with inclusive bounds
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from trainer.chain import Chain
from trainer.objectives.aggregation import token_mean
from trainer.objectives.protocol import OBJECTIVES, ActionTokens, TokenLoss


class _Weighted:
    needs: frozenset[str] = frozenset()

    def weights(self, chain: Chain, truncated: Tensor) -> Tensor:
        return token_mean(chain)

    def weight(self, ratio: Tensor) -> Tensor:
        raise NotImplementedError

    def token_loss(self, tokens: ActionTokens) -> TokenLoss:
        weight = self.weight(tokens.log_ratio.detach().exp())
        return TokenLoss(-weight * tokens.advantages * tokens.logprobs, weight > 0)


class ReinforceOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


@OBJECTIVES.register("reinforce", ReinforceOptions)
class Reinforce(_Weighted):
    def __init__(self, options: ReinforceOptions) -> None:
        self.options = options

    def weight(self, ratio: Tensor) -> Tensor:
        return torch.ones_like(ratio)


class TISOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    cap: float = Field(2.0, gt=0, description="Largest importance weight C.")


@OBJECTIVES.register("tis", TISOptions)
class TIS(_Weighted):
    def __init__(self, options: TISOptions) -> None:
        self.options = options

    def weight(self, ratio: Tensor) -> Tensor:
        return ratio.clamp(max=self.options.cap)


class IcePopOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    low: float = Field(0.5, ge=0, description="Smallest ratio that teaches.")
    high: float = Field(5.0, gt=0, description="Largest ratio that teaches.")


@OBJECTIVES.register("icepop", IcePopOptions)
class IcePop(_Weighted):
    def __init__(self, options: IcePopOptions) -> None:
        self.options = options

    def weight(self, ratio: Tensor) -> Tensor:
        return torch.where((ratio >= self.options.low) & (ratio <= self.options.high), ratio, 0.0)
