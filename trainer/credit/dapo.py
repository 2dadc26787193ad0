"""DAPO's credit (Yu et al. 2025): GRPO's advantage, groups whose rewards are all equal left out, long answers punished softly.

    punishment(L) = 0                                   L ≤ L_max − L_cache
                    ((L_max − L_cache) − L) / L_cache   in between
                    −1                                  L > L_max                                      (eq. 13)

L is the trajectory's action tokens; the punishment is added to its reward before normalising. Off by default: for an
agent length is not yet a fault.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from trainer.credit.group import grpo, within_groups
from trainer.credit.protocol import CREDITS, CreditInput


def soft_overlong_punishment(lengths: Tensor, max_tokens: int, cache_tokens: int) -> Tensor:
    """float[B] in [−1, 0]. lengths: int64[B]."""
    return (((max_tokens - cache_tokens) - lengths) / cache_tokens).clamp(-1.0, 0.0)


class DAPOCreditOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    punish_overlong: bool = Field(False, description="Add the soft overlong punishment to the reward.")
    max_tokens: int = Field(20480, ge=1, description="L_max: action tokens from which the punishment is −1.")
    cache_tokens: int = Field(4096, ge=1, description="L_cache: the punishment sets in this many tokens earlier.")


@CREDITS.register("dapo", DAPOCreditOptions)
class DAPOCredit:
    needs_critic = False
    needs_groups = True
    needs_mixed_groups = True
    reads_token_rewards = False
    gamma = 1.0

    def __init__(self, options: DAPOCreditOptions) -> None:
        self.options = options

    def advantages(self, given: CreditInput) -> Tensor:
        rewards = given.rewards
        if self.options.punish_overlong:
            rewards = rewards + soft_overlong_punishment(
                given.chain.lengths, self.options.max_tokens, self.options.cache_tokens
            )
        return given.chain.spread(within_groups(rewards, given.groups, grpo))
