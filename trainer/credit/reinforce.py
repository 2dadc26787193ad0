"""Returns against a baseline, without groups and without a critic.

reinforce     R − baseline, by default the batch mean             (Williams 1992) reinforce++   (G_t − mean) / (std +
1e-6) over the batch's action tokens, G_t the undiscounted return     (Hu 2025) constant      1: every action token
counts the same               (imitation; with the objective `reinforce` that is SFT)
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from trainer.credit.gae import discounted_returns
from trainer.credit.group import EPSILON, NoOptions
from trainer.credit.protocol import CREDITS, CreditInput


class _WithoutGroups:
    needs_critic = False
    needs_groups = False
    needs_mixed_groups = False
    reads_token_rewards = False
    gamma = 1.0


class ReinforceOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    baseline: float | None = Field(None, description="Subtracted from every reward; null: the batch mean.")


@CREDITS.register("reinforce", ReinforceOptions)
class ReinforceCredit(_WithoutGroups):
    def __init__(self, options: ReinforceOptions) -> None:
        self.options = options

    def advantages(self, given: CreditInput) -> Tensor:
        baseline = given.rewards.mean() if self.options.baseline is None else self.options.baseline
        return given.chain.spread(given.rewards - baseline)


@CREDITS.register("reinforce++", NoOptions)
class ReinforcePlusPlusCredit(_WithoutGroups):
    reads_token_rewards = True

    def __init__(self, options: NoOptions) -> None:
        self.options = options

    def advantages(self, given: CreditInput) -> Tensor:
        returns = discounted_returns(given.token_rewards, torch.zeros_like(given.rewards), given.chain, gamma=1.0)
        return (returns - returns.mean()) / (returns.std(unbiased=True) + EPSILON)


@CREDITS.register("constant", NoOptions)
class ConstantCredit(_WithoutGroups):
    def __init__(self, options: NoOptions) -> None:
        self.options = options

    def advantages(self, given: CreditInput) -> Tensor:
        return torch.ones_like(given.token_rewards)
