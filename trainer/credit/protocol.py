"""What a credit rule gets and gives: rewards and values in, advantages (and value targets) out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

from trainer.chain import Chain
from trainer.registry import Registry


@dataclass(frozen=True, slots=True, eq=False)
class CreditInput:
    """One batch of B trajectories with N action tokens.

    token_rewards: float[N], what is earned right after each action token; a terminal reward sits on the last one,
    also when the episode ended on an observation. rewards: float[B], the verdicts. groups: B names, equal for
    rollouts of one prompt. values: float[N], V of the prefix before each action token; bootstrap: float[B], V after
    the last one where a budget cut the episode, 0 where it ended. logprobs: float[N], of the policy
    before the update. reward_vectors: float[B, D]. calls: int64[N], the model call that sampled each
    token. marks: per signal int64[B], the call from which a trajectory went wrong, −1 for never. forks: per trajectory
    the index of its parent in the batch, or None, and how many of the parent's calls came before it. What a rule does not
    need may be None.
    """

    chain: Chain
    token_rewards: Tensor
    rewards: Tensor
    groups: tuple[str, ...]
    values: Tensor | None = None
    bootstrap: Tensor | None = None
    logprobs: Tensor | None = None
    reward_vectors: Tensor | None = None
    calls: Tensor | None = None
    marks: Mapping[str, Tensor] | None = None
    forks: tuple[tuple[int | None, int], ...] | None = None


Need = Literal["critic", "groups", "mixed_groups", "logprobs", "reward_vectors", "marks", "forks", "progress"]
"""critic: values. groups: several rollouts of each prompt. mixed_groups: and their rewards differ. logprobs: of the policy before
the update. reward_vectors: one reward per dimension beside the verdict. marks: where trajectories went wrong. forks: which one
was forked from which. progress: failed episodes are looked at for the step that undid a solution (`harness.progress`)."""


class Credit(Protocol):
    """Rewards → advantages. reads_token_rewards: False where only verdicts count. gamma: discount per action token."""

    needs: frozenset[Need]
    reads_token_rewards: bool
    gamma: float

    def advantages(self, given: CreditInput) -> Tensor:
        """float[N], not whitened unless the rule's formula says so."""
        ...


CREDITS: Registry[Credit] = Registry("credit")
