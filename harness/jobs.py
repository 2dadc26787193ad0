"""Rollout jobs: which episodes a run consists of, and the identity that makes a run resumable.

A job names one episode before it happens: task, policy, profile, and which repeat it is. The id of the trajectory it
will leave is derived from the run and from exactly these, so a run that is started again knows what it already has, and
storing the same episode twice is impossible.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from agentgym.tasks.model import Task
from harness.policies.protocol import Policy
from harness.profile import Profile
from harness.render import GuardedRenderer

_NAMESPACE = uuid.UUID("6f9a5a0e-8a53-5d4f-9a53-3f1d6c0f1a55")


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to run. repeat: 0, 1, ... among the rollouts of the same task, policy and profile."""

    task: Task
    policy: Policy
    renderer: GuardedRenderer
    profile: Profile
    repeat: int = 0
    seed: int | None = None
    group_id: str = ""

    @property
    def key(self) -> str:
        """What makes this job different from all others of its run."""
        parts = (self.task.digest, self.policy.name, self.policy.model, self.profile.digest, f"{self.repeat}")
        return ":".join([*parts, "" if self.seed is None else f"{self.seed}"])

    def trajectory_id(self, run_id: str, attempt: int = 0) -> str:
        """32 hex digits; another attempt (after a failure that is no verdict) is another trajectory."""
        return uuid.uuid5(_NAMESPACE, f"{run_id}/{self.key}/{attempt}").hex


def plan(
    tasks: Sequence[Task],
    policy: Policy | Callable[[Task], Policy],
    renderer: GuardedRenderer,
    profile: Profile,
    *,
    rollouts: int = 1,
    seed: int | None = 0,
) -> list[Job]:
    """`rollouts` jobs for each task, one group per task.

    policy: one for all tasks, or made for each (a solution to play). seed: each job's own seed is derived from it, the
    task and the repeat, so adding tasks or rollouts changes no other episode; None draws afresh.
    """
    jobs: list[Job] = []
    for task in tasks:
        acting = policy(task) if callable(policy) else policy
        group = hashlib.sha256(f"{task.digest}:{acting.name}:{acting.model}:{profile.digest}".encode()).hexdigest()[:16]
        jobs += [
            Job(task, acting, renderer, profile, repeat, _seed(seed, task, repeat), group) for repeat in range(rollouts)
        ]
    return jobs


def _seed(seed: int | None, task: Task, repeat: int) -> int | None:
    if seed is None:
        return None
    of_task = int.from_bytes(hashlib.sha256(task.digest.encode()).digest()[:4])
    return int(np.random.SeedSequence([seed, of_task, repeat]).generate_state(1)[0])
