"""Which stored trajectories may teach, as tensors.

A trajectory teaches only if a model policy sampled it, a verdict exists, nothing but the policy ended it, its tokens
were drawn from the distribution whose log probabilities were recorded, and it is not too stale: its *oldest* token
counts. Every trajectory left out is counted under the first reason that applies; a drop is never silent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import torch
from torch import Tensor

from agentgym.store.records import PolicyKind, Trajectory
from agentgym.store.sequences import Sequence, sequences
from trainer.config import EvidenceRules
from trainer.marks import marks


class Drop(StrEnum):
    """Why a trajectory was left out."""

    NOT_A_MODEL = "not_a_model"
    FAILURE = "failure"
    NO_REWARD = "no_reward"
    LOW_REWARD = "low_reward"
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
    def of(cls, sequence: Sequence, *, imitate: bool = False) -> Row:
        """`imitate`: the temperature is 1, whatever drew the tokens: a demonstration is scored under the policy as it is."""
        positions = np.flatnonzero(sequence.action_mask)

        def actions(array: np.ndarray, dtype: torch.dtype) -> Tensor:
            return torch.as_tensor(array[positions].copy()).to(dtype)

        return cls(
            token_ids=torch.as_tensor(np.asarray(sequence.token_ids, np.int64)),
            positions=torch.as_tensor(positions),
            behaviour=actions(sequence.logprobs, torch.float32),
            temperature=torch.ones(len(positions)) if imitate else actions(sequence.temperature, torch.float32),
            version=actions(sequence.policy_version, torch.int64),
            call_index=actions(sequence.call_index, torch.int64),
        )

    @property
    def prompt(self) -> Tensor:
        """What precedes the first action token."""
        return self.token_ids[: int(self.positions[0])]

    def __len__(self) -> int:
        return len(self.token_ids)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """One trajectory that may teach. truncated: a budget cut it, so its return goes on beyond its end.

    marks: per signal (see `trainer.marks`), the call from which the trajectory went wrong. parent: the trajectory it was
    forked from, after its first `branch_step` steps. step_calls: the call that each step answered.
    """

    trajectory_id: str
    group: str
    rows: tuple[Row, ...]
    reward: float
    truncated: bool
    reward_vector: Mapping[str, float] = field(default_factory=dict)
    marks: Mapping[str, int] = field(default_factory=dict)
    parent: str | None = None
    branch_step: int = 0
    step_calls: tuple[int, ...] = ()

    def first_call_after(self, step: int) -> int:
        """Which of its calls a fork behind its first `step` steps takes the place of."""
        if step < len(self.step_calls):
            return self.step_calls[step]
        return self.step_calls[-1] + 1 if self.step_calls else 0

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
    if trajectory.policy_kind is not PolicyKind.MODEL and not rules.imitate:
        return Drop.NOT_A_MODEL
    if trajectory.termination.is_failure:
        return Drop.FAILURE
    if trajectory.reward is None:
        return Drop.NO_REWARD
    if rules.min_reward is not None and trajectory.reward < rules.min_reward:
        return Drop.LOW_REWARD
    sampled = [call.sampling for call in trajectory.calls if len(call.generation_token_ids) and not rules.imitate]
    if any(sampling.top_p < 1 or sampling.top_k > 0 for sampling in sampled):
        return Drop.TRUNCATED_SAMPLING
    if any(sampling.temperature <= 0 for sampling in sampled):
        return Drop.GREEDY_SAMPLING
    rows = tuple(Row.of(sequence, imitate=rules.imitate) for sequence in sequences(trajectory))
    if not rows or any(int(row.positions[0]) < 1 for row in rows):
        return Drop.NO_ACTIONS
    evidence = Evidence(
        trajectory_id=trajectory.id,
        group=trajectory.group_id or trajectory.task_digest,
        rows=rows,
        reward=float(trajectory.reward),
        truncated=trajectory.termination.is_budget,
        reward_vector=dict(trajectory.reward_vector),
        marks=marks(trajectory),
        parent=trajectory.parent_id,
        branch_step=trajectory.branch_step or 0,
        step_calls=tuple(step.call_index for step in trajectory.steps),
    )
    return freshness(evidence, rules, version=version) or evidence


def freshness(evidence: Evidence, rules: EvidenceRules, *, version: int) -> Drop | None:
    """The checks that a later learner version can fail, and the length cap."""
    if not rules.imitate and version - evidence.oldest_version > rules.max_staleness:
        return Drop.STALE
    if not rules.imitate and any(int(row.version.max()) > version for row in evidence.rows):
        return Drop.FUTURE_VERSION
    if any(len(row) > rules.max_sequence_tokens for row in evidence.rows):
        return Drop.TOO_LONG
    return None
