"""What an episode has done so far, and the trajectory it becomes however it ends.

Calls are recorded from what was really sent and really answered, before anything is built on them; an answer that would
break the record's invariants is refused as the policy's failure.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from agentgym import telemetry
from agentgym.sandbox.protocol import Image, SandboxBackend
from agentgym.store.records import ContextEvent, Int32Array, ModelCall, Sampling, Step, Termination, Trajectory
from agentgym.tasks.model import Task
from agentgym.verify.grade import Grade, Patch
from harness.budget import Budget
from harness.context import Context
from harness.policies.protocol import Generation, Policy, PolicyError
from harness.profile import Profile
from harness.render import GuardedRenderer
from harness.stopping import Watch
from harness.tools import ToolContext

_LOG_CHARS = 4000


class Prefix(Protocol):
    """What happened before an episode's own first call, in a trajectory whose child it becomes."""

    @property
    def parent_id(self) -> str: ...

    @property
    def branch_step(self) -> int: ...

    @property
    def image(self) -> Image | None:
        """A snapshot to start the sandbox from; None: the task's image."""
        ...

    async def restore(self, context: Context, budget: Budget, watch: Watch, tools: ToolContext) -> None:
        """Bring a fresh episode there: the sandbox, the prompt, what is spent, and what has been seen."""
        ...


@dataclass(frozen=True, slots=True)
class Setting:
    """Who acts on what, where and under which rules: fixed for the whole episode."""

    task: Task
    policy: Policy
    renderer: GuardedRenderer
    profile: Profile
    backend: SandboxBackend
    image: Image
    seed: int | None = None
    run_id: str = ""
    group_id: str = ""
    prefix: Prefix | None = None


@dataclass(slots=True)
class Recorder:
    """on_phase: told the name of each phase as it begins. grade: of the patch, once there is one.

    extra: what a harness wants to keep beside the record, for people.
    """

    setting: Setting
    on_phase: Callable[[str], None] | None = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    calls: list[ModelCall] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    patch: Patch = Patch(b"")
    grade: Grade | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    started_at: float = field(default_factory=time.time)
    _seeds: int = 0

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to `timings[name]`."""
        if self.on_phase:
            self.on_phase(name)
        started = time.monotonic()
        try:
            with telemetry.span(name):
                yield
        finally:
            self.timings[name] = self.timings.get(name, 0.0) + time.monotonic() - started

    def next_sampling(self) -> Sampling:
        """Of the next call: the profile's, with a seed derived from the episode's that no other call gets, answered or not."""
        seed = self.setting.seed
        if seed is not None:
            seed = int(np.random.SeedSequence([seed, self._seeds]).generate_state(1)[0])
        self._seeds += 1
        return self.setting.profile.sampling.record(seed)

    def call(
        self, prompt: Int32Array, answer: Generation, sampling: Sampling, event: ContextEvent, started_at: float
    ) -> None:
        """Record one answered request; raises PolicyError for an answer that is no valid record."""
        _check(answer)
        self.calls.append(
            ModelCall(
                prompt_token_ids=prompt,
                generation_token_ids=answer.token_ids,
                logprobs=answer.logprobs,
                sampling=sampling,
                policy_versions=answer.versions,
                finish_reason=answer.finish_reason,
                context_event=event,
                started_at=started_at,
                duration=time.time() - started_at,
            )
        )

    def trajectory(self, termination: Termination, *, error: str | None = None) -> Trajectory:
        setting, verdict = self.setting, None if termination.is_failure else self.grade
        return Trajectory(
            task_id=setting.task.id,
            task_digest=setting.task.digest,
            harness_digest=setting.profile.digest,
            backend=setting.backend.name,
            image_digest=setting.image.digest,
            policy=setting.policy.name,
            policy_kind=setting.policy.kind,
            model=setting.policy.model,
            calls=tuple(self.calls),
            steps=tuple(self.steps),
            termination=termination,
            reward=verdict.reward if verdict else None,
            reward_vector=verdict.vector if verdict else {},
            verdicts=verdict.verdicts if verdict else {},
            patch=self.patch.diff.decode("utf-8", errors="surrogateescape"),  # encode likewise to have the diff's bytes
            timings=dict(self.timings),
            error=error,
            run_id=setting.run_id,
            group_id=setting.group_id,
            split=setting.task.split,
            seed=setting.seed,
            metadata=self._metadata(verdict),
            created_at=self.started_at,
            parent_id=setting.prefix.parent_id if setting.prefix else None,
            branch_step=setting.prefix.branch_step if setting.prefix else None,
            id=self.id,
        )

    def _metadata(self, verdict: Grade | None) -> dict[str, Any]:
        """What people want to read beside the record: names behind digests, and what the verifier had to say."""
        metadata: dict[str, Any] = {"renderer": self.setting.renderer.name, "profile": self.setting.profile.name}
        metadata |= self.extra
        if verdict and verdict.judge:
            metadata["grade_judge"] = verdict.judge
        if verdict and verdict.notes:
            metadata["grade_notes"] = list(verdict.notes)
        if verdict and verdict.log:
            metadata["grade_log"] = verdict.log[-_LOG_CHARS:]
        return metadata


def _check(generation: Generation) -> None:
    """Refuse an answer that breaks the record's invariants before anything is built on it; raises PolicyError."""
    size = len(generation.token_ids)
    if len(generation.logprobs) != size:
        raise PolicyError(f"the policy gave {len(generation.logprobs)} logprobs for {size} tokens")
    edge = 0
    for span in generation.versions:
        if span.start != edge or span.end <= span.start:
            break
        edge = span.end
    if edge != size:
        raise PolicyError(f"the policy's version spans {generation.versions} do not cover its {size} tokens")
    if not np.isfinite(generation.logprobs).all():
        raise PolicyError("the policy gave a logprob that is not finite")
