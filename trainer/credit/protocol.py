"""What a credit rule gets and gives: rewards and values in, advantages (and value targets) out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from trainer.chain import Chain
from trainer.registry import Registry


@dataclass(frozen=True, slots=True, eq=False)
class CreditInput:
    """One batch of B trajectories with N action tokens.

    token_rewards: float[N], what is earned right after each action token; a terminal reward sits on the last one,
    also when the episode ended on an observation. rewards: float[B], the verdicts. groups: B names, equal for
    rollouts of one prompt. values: float[N], V of the prefix before each action token; bootstrap: float[B], V after
    the last one where a budget cut the episode, 0 where it ended. Both None for rules without a critic.
    """

    chain: Chain
    token_rewards: Tensor
    rewards: Tensor
    groups: tuple[str, ...]
    values: Tensor | None = None
    bootstrap: Tensor | None = None


class Credit(Protocol):
    """Rewards → advantages.

    needs_critic: values must be given. needs_groups: several rollouts per prompt must be given. needs_mixed_groups: a group whose
    rewards are all equal is no evidence. reads_token_rewards: False where only verdicts count. gamma: discount per
    action token.
    """

    needs_critic: bool
    needs_groups: bool
    needs_mixed_groups: bool
    reads_token_rewards: bool
    gamma: float

    def advantages(self, given: CreditInput) -> Tensor:
        """float[N], not whitened unless the rule's formula says so."""
        ...


CREDITS: Registry[Credit] = Registry("credit")
