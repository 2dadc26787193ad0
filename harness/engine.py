"""The rollout engine: hundreds of episodes in one asyncio process, each stored the moment it ends.

`concurrency` workers take jobs in order; sandboxes, policy and grader put their own pressure back on them by being
slow. A run can be started again under the same id, also while it is going on elsewhere: jobs whose trajectory is in the store
are skipped, and of two that end at once the first one stored is kept. An episode that
the environment spoilt is run again in a fresh sandbox; what is left after the last attempt is stored as what it is,
without a reward. A task whose image does not build fails its jobs and no others: no episode happened, so nothing is
stored.

Cancelling the run cancels every episode, waits until each has closed its sandbox, and stores no unfinished trajectory.
A store that refuses to write ends the run the same way, since going on would produce evidence nobody keeps.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol, TypeVar

from agentgym import telemetry
from agentgym.sandbox.protocol import Image, SandboxBackend, SandboxError
from agentgym.store import NotFoundError, Store, StoreError, Trajectory, TrajectoryFilter
from agentgym.store.records import Termination
from agentgym.tasks.model import Task
from harness.episode import run_episode
from harness.jobs import Job
from harness.policies.protocol import Policy
from harness.profile import Profile
from harness.render import GuardedRenderer

T = TypeVar("T")


class EventKind(StrEnum):
    SKIPPED = "skipped"
    """The store already had the trajectory."""
    STARTED = "started"
    PHASE = "phase"
    """The episode entered `phase`: start, inference, tool or grade."""
    RETRYING = "retrying"
    """The environment failed; the job starts again in a fresh sandbox."""
    STORED = "stored"
    FAILED = "failed"
    """There is no episode to store (the image does not build)."""


@dataclass(frozen=True, slots=True)
class RolloutEvent:
    """What a progress display needs to know. trajectory: for STORED. error: for RETRYING and FAILED."""

    kind: EventKind
    job: Job
    phase: str = ""
    trajectory: Trajectory | None = None
    error: str = ""


OnEvent = Callable[[RolloutEvent], None]


class Runner(Protocol):
    """What runs one episode: our own loop (`run_episode`), or another harness through the gateway."""

    async def __call__(
        self,
        task: Task,
        *,
        policy: Policy,
        renderer: GuardedRenderer,
        profile: Profile,
        backend: SandboxBackend,
        image: Image,
        seed: int | None,
        run_id: str,
        group_id: str,
        on_phase: Callable[[str], None] | None,
    ) -> Trajectory: ...


def _silent(event: RolloutEvent) -> None:
    pass


@dataclass(slots=True)
class RolloutReport:
    """What a run left. ids: trajectory per job, in the jobs' order, None where there is none. seconds: wall time.

    failed: why, per job index without a trajectory. skipped: jobs that were in the store already. phases: seconds per phase,
    summed over the episodes of this call.
    """

    ids: list[str | None]
    failed: dict[int, str] = field(default_factory=dict)
    skipped: int = 0
    seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)

    @property
    def trajectory_ids(self) -> list[str]:
        return [id_ for id_ in self.ids if id_ is not None]


async def run_rollouts(
    jobs: Sequence[Job],
    *,
    run_id: str,
    store: Store,
    backend: SandboxBackend,
    concurrency: int = 8,
    environment_retries: int = 2,
    retry_failed: bool = False,
    on_event: OnEvent | None = None,
    episode: Runner = run_episode,
) -> RolloutReport:
    """Run all jobs that the store lacks under `run_id`.

    environment_retries: fresh attempts after an environment failure. retry_failed: also run again what an earlier call
    stored as a failure (environment, policy, cancelled). Raises StoreError and RenderError; whatever it raises, all
    sandboxes are closed.
    """
    tell = on_event or _silent
    run = _Run(EpisodeRunner(run_id, store, backend, environment_retries, tell, episode), retry_failed, tell)
    return await run.all(jobs, concurrency)


@dataclass(slots=True)
class EpisodeRunner:
    """Runs jobs of one run, one call each, and stores what they leave; for callers that decide the next job as they go."""

    run_id: str
    store: Store
    backend: SandboxBackend
    environment_retries: int = 2
    on_event: OnEvent = _silent
    episode: Runner = run_episode
    started: float = field(default_factory=time.monotonic)
    images: dict[str, asyncio.Task[Image]] = field(default_factory=dict)

    async def run(self, job: Job, id_: str) -> Trajectory | None:
        """One episode, stored under `id_`; None where another process on the same run has stored that id meanwhile.

        Raises SandboxError where its image does not build, and StoreError.
        """
        if await asyncio.to_thread(self._stored, id_):
            return None
        trajectory = await self._episode(job, id_)
        if not await _to_the_end(asyncio.to_thread(self._keep, trajectory, job.profile)):
            return None
        self.on_event(RolloutEvent(EventKind.STORED, job, trajectory=trajectory))
        return trajectory

    async def close(self) -> None:
        """Cancel what is still being built."""
        for task in self.images.values():
            task.cancel()
        await asyncio.gather(*self.images.values(), return_exceptions=True)

    def _keep(self, trajectory: Trajectory, profile: Profile) -> bool:
        """Store it; False where another process on the same run has stored this job's trajectory meanwhile."""
        if self._stored(trajectory.id):
            return False
        try:
            return self.store.add(trajectory, profile.document())
        except StoreError:
            if self._stored(trajectory.id):  # taken between the two looks
                return False
            raise

    def _stored(self, id_: str) -> bool:
        """Whether a job has its trajectory by now: this run's other processes store theirs while ours goes on."""
        try:
            self.store.summary(id_)
        except NotFoundError:
            return False
        return True

    async def _episode(self, job: Job, id_: str) -> Trajectory:
        """Run a job until the environment holds or the attempts are spent; raises SandboxError without an image."""
        queued = time.monotonic() - self.started
        self.on_event(RolloutEvent(EventKind.STARTED, job))
        image = await self._image(job)
        failures: list[str] = []
        while True:
            with telemetry.span(
                "episode", run=self.run_id, task=job.task.id, trajectory=id_, attempt=len(failures)
            ) as seen:
                trajectory = await self.episode(
                    job.task,
                    policy=job.policy,
                    renderer=job.renderer,
                    profile=job.profile,
                    backend=self.backend,
                    image=image,
                    seed=job.seed,
                    run_id=self.run_id,
                    group_id=job.group_id,
                    on_phase=lambda phase: self.on_event(RolloutEvent(EventKind.PHASE, job, phase)),
                )
                ended = trajectory.termination.value
                seen.note(
                    termination=ended,
                    reward=trajectory.reward,
                    calls=len(trajectory.calls),
                    steps=len(trajectory.steps),
                )
            spoilt = trajectory.termination is Termination.ENVIRONMENT_FAILURE
            if not spoilt or len(failures) >= self.environment_retries:
                break
            failures.append(trajectory.error or "")
            self.on_event(RolloutEvent(EventKind.RETRYING, job, error=failures[-1]))
        metadata = {**trajectory.metadata, "repeat": job.repeat}
        if failures:
            metadata["earlier_failures"] = failures
        timings = {"queue": queued, **trajectory.timings}
        return replace(trajectory, id=id_, metadata=metadata, timings=timings)

    async def _image(self, job: Job) -> Image:
        """The task's image, made once for all its jobs; one job's cancellation does not cancel it for the others."""
        spec = job.task.image
        if spec.digest not in self.images:
            self.images[spec.digest] = asyncio.create_task(self.backend.ensure_image(spec))
        return await asyncio.shield(self.images[spec.digest])


@dataclass(slots=True)
class _Run:
    runner: EpisodeRunner
    retry_failed: bool
    on_event: OnEvent
    known: dict[str, Termination] = field(default_factory=dict)

    async def all(self, jobs: Sequence[Job], concurrency: int) -> RolloutReport:
        report = RolloutReport(ids=[None] * len(jobs))
        await asyncio.to_thread(self._read_store)
        waiting = iter(enumerate(jobs))
        workers = [asyncio.create_task(self._worker(waiting, report)) for _ in range(min(concurrency, len(jobs)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for task in workers:
                task.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            await self.runner.close()
            report.seconds = time.monotonic() - self.runner.started
        return report

    def _read_store(self) -> None:
        found = self.runner.store.query(TrajectoryFilter(run_id=self.runner.run_id))
        self.known = {summary.id: summary.termination for summary in found}

    async def _worker(self, waiting: Iterator[tuple[int, Job]], report: RolloutReport) -> None:
        for index, job in waiting:
            attempt = 0
            while (id_ := job.trajectory_id(self.runner.run_id, attempt)) in self.known:
                if not (self.retry_failed and self.known[id_].is_failure):
                    break
                attempt += 1
            if id_ in self.known:
                self._skip(index, job, id_, report)
                continue
            try:
                trajectory = await self.runner.run(job, id_)
            except SandboxError as error:
                report.failed[index] = str(error)
                self.on_event(RolloutEvent(EventKind.FAILED, job, error=str(error)))
                continue
            if trajectory is None:
                self._skip(index, job, id_, report)
                continue
            report.ids[index] = id_
            for phase, seconds in trajectory.timings.items():
                report.phases[phase] = report.phases.get(phase, 0.0) + seconds

    def _skip(self, index: int, job: Job, id_: str, report: RolloutReport) -> None:
        report.ids[index] = id_
        report.skipped += 1
        self.on_event(RolloutEvent(EventKind.SKIPPED, job))


async def _to_the_end(work: Awaitable[T]) -> T:
    """Await `work` whole, also when cancelled meanwhile: a thread that writes cannot be taken back."""
    future = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise
