"""Which stored trajectories may teach, as tensors.

A trajectory teaches only if a model policy sampled it, a verdict exists, nothing but the policy ended it, its tokens
were drawn from the distribution whose log probabilities were recorded, and it is not too stale: its *oldest* token
counts. Every trajectory left out is counted under the first reason that applies; a drop is never silent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from torch import Tensor

from agentgym.store.records import PolicyKind, Trajectory
from agentgym.store.sequences import Sequence, sequences
from trainer.config import EvidenceRules


class Drop(StrEnum):
    """Why a trajectory was left out."""

    NOT_A_MODEL = "not_a_model"
    FAILURE = "failure"
    NO_REWARD = "no_reward"
    NO_ACTIONS = "no_actions"
    TRUNCATED_SAMPLING = "truncated_sampling"
    """top-p or top-k cut the distribution: its ratios are undefined without the kept set."""
    GREEDY_SAMPLING = "greedy_sampling"
    STALE = "stale"
    FUTURE_VERSION = "future_version"
    """Sampled by a version this learner has not reached: it belongs to another run."""
    TOO_LONG = "too_long"
    GROUP_OF_ONE = "group_of_one"
    UNIFORM_GROUP = "uniform_group"
    """All rollouts of the prompt got the same reward: no signal within the group (dynamic sampling)."""
    ALREADY_USED = "already_used"
    DAMAGED = "damaged"
    """Its stored bytes do not match their checksum."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One `Sequence` as tensors: T tokens, A of them actions.

    token_ids: int64[T]. positions: int64[A], where the action tokens are, each ≥ 1. behaviour: float32[A] nats of the
    tempered distribution. temperature: float32[A]. version, call_index: int64[A].
    """

    token_ids: Tensor
    positions: Tensor
    behaviour: Tensor
    temperature: Tensor
    version: Tensor
    call_index: Tensor

    @classmethod
    def of(cls, sequence: Sequence) -> Row:
        positions = np.flatnonzero(sequence.action_mask)

        def actions(array: np.ndarray, dtype: torch.dtype) -> Tensor:
            return torch.as_tensor(array[positions].copy()).to(dtype)

        return cls(
            token_ids=torch.as_tensor(np.asarray(sequence.token_ids, np.int64)),
            positions=torch.as_tensor(positions),
            behaviour=actions(sequence.logprobs, torch.float32),
            temperature=actions(sequence.temperature, torch.float32),
            version=actions(sequence.policy_version, torch.int64),
            call_index=actions(sequence.call_index, torch.int64),
        )

    def __len__(self) -> int:
        return len(self.token_ids)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """One trajectory that may teach. truncated: a budget cut it, so its return goes on beyond its end."""

    trajectory_id: str
    group: str
    rows: tuple[Row, ...]
    reward: float
    truncated: bool

    @property
    def action_tokens(self) -> int:
        return sum(len(row.positions) for row in self.rows)

    @property
    def tokens(self) -> int:
        return sum(len(row) for row in self.rows)

    @property
    def oldest_version(self) -> int:
        return min(int(row.version.min()) for row in self.rows)


def judge(trajectory: Trajectory, rules: EvidenceRules, *, version: int) -> Evidence | Drop:
    """The trajectory as evidence for a learner at `version`, or why it is none."""
    if trajectory.policy_kind is not PolicyKind.MODEL:
        return Drop.NOT_A_MODEL
    if trajectory.termination.is_failure:
        return Drop.FAILURE
    if trajectory.reward is None:
        return Drop.NO_REWARD
    sampled = [call.sampling for call in trajectory.calls if len(call.generation_token_ids)]
    if any(sampling.top_p < 1 or sampling.top_k > 0 for sampling in sampled):
        return Drop.TRUNCATED_SAMPLING
    if any(sampling.temperature <= 0 for sampling in sampled):
        return Drop.GREEDY_SAMPLING
    rows = tuple(Row.of(sequence) for sequence in sequences(trajectory))
    if not rows or any(int(row.positions[0]) < 1 for row in rows):
        return Drop.NO_ACTIONS
    evidence = Evidence(
        trajectory_id=trajectory.id,
        group=trajectory.group_id or trajectory.task_digest,
        rows=rows,
        reward=float(trajectory.reward),
        truncated=trajectory.termination.is_budget,
    )
    return freshness(evidence, rules, version=version) or evidence


def freshness(evidence: Evidence, rules: EvidenceRules, *, version: int) -> Drop | None:
    """The checks that a later learner version can fail, and the length cap."""
    if version - evidence.oldest_version > rules.max_staleness:
        return Drop.STALE
    if any(int(row.version.max()) > version for row in evidence.rows):
        return Drop.FUTURE_VERSION
    if any(len(row) > rules.max_sequence_tokens for row in evidence.rows):
        return Drop.TOO_LONG
    return None
