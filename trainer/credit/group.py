"""Advantages from the rollouts of one prompt: one number per trajectory, the same at each of its action tokens.

    grpo          (R − mean) / (std + 1e-6) over the rollouts of one prompt, std unbiased      (Shao et al. 2024, eq. 3)
    dr-grpo       R − mean over the rollouts of one prompt                                      (Liu et al. 2025)
    rloo          R − mean of the *other* rollouts of the prompt                                (Ahmadian et al. 2024,
    eq. 6) reinforce     R − baseline                                                                   (Williams
    1992) reinforce++   (R − mean) / (std + 1e-6) over the batch's action tokens                      (Hu 2025)

A group of one has no signal of its own. It is an error here, never a silent zero; the loop leaves such trajectories
out and counts them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from trainer.credit.protocol import CREDITS, CreditInput
from trainer.errors import TrainConfigError

EPSILON = 1e-6


def grpo(rewards: Tensor) -> Tensor:
    """rewards: [G] of one group."""
    return (rewards - rewards.mean()) / (rewards.std(unbiased=True) + EPSILON)


def dr_grpo(rewards: Tensor) -> Tensor:
    return rewards - rewards.mean()


def rloo(rewards: Tensor) -> Tensor:
    others = (rewards.sum() - rewards) / (len(rewards) - 1)
    return rewards - others


def within_groups(rewards: Tensor, groups: tuple[str, ...], rule: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply `rule` to each group's rewards; [B] → [B]. TrainConfigError for a group of one."""
    members: dict[str, list[int]] = {}
    for index, group in enumerate(groups):
        members.setdefault(group, []).append(index)
    alone = [group for group, found in members.items() if len(found) == 1]
    if alone:
        raise TrainConfigError(
            f"{len(alone)} of {len(members)} groups hold one rollout (first: {alone[0]!r}): no signal within the group",
            hint="roll out at least two trajectories per prompt, or use a credit with a critic (sao-gae)",
        )
    advantages = torch.empty_like(rewards)
    for found in members.values():
        advantages[found] = rule(rewards[found])
    return advantages


class NoOptions(BaseModel):
    """These rules have nothing to set."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _GroupCredit:
    needs_critic = False
    needs_groups = True
    needs_mixed_groups = False
    reads_token_rewards = False
    gamma = 1.0
    rule: staticmethod[[Tensor], Tensor]

    def __init__(self, options: NoOptions) -> None:
        self.options = options

    def advantages(self, given: CreditInput) -> Tensor:
        return given.chain.spread(within_groups(given.rewards, given.groups, self.rule))


@CREDITS.register("grpo", NoOptions)
class GRPOCredit(_GroupCredit):
    rule = staticmethod(grpo)


@CREDITS.register("dr-grpo", NoOptions)
class DrGRPOCredit(_GroupCredit):
    rule = staticmethod(dr_grpo)


@CREDITS.register("rloo", NoOptions)
class RLOOCredit(_GroupCredit):
    rule = staticmethod(rloo)
