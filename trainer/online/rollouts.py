"""The rollout side: which episode starts when, and what becomes of it.

    next job  →  episode  →  stored  →  offered to the feed, recorded by the curriculum

A *prompt* is one draw of the curriculum; its `group_size` rollouts form a group. A trajectory's id follows from run, prompt
and member, and its group id names the prompt, so a run that is started again completes the groups its predecessor left
open and can store no episode twice.

An episode begins only while there is room: fewer than the limit are usable or under way (`room`). A worker that dies of
something unforeseen is replaced and its episode run again; what dies every time ends the run, and so does a long row of
failures that are not the policy's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from agentgym.errors import AgentGymError
from agentgym.sandbox.protocol import SandboxError
from agentgym.store import Trajectory, TrajectoryFilter
from agentgym.tasks import Task
from agentgym.together import together
from harness.engine import EpisodeRunner
from harness.jobs import Job
from harness.policies.protocol import Policy
from harness.profile import Profile
from harness.render import GuardedRenderer
from trainer.online.config import OnlineConfig
from trainer.online.curriculum import Curriculum
from trainer.online.errors import RolloutsStalled

_log = logging.getLogger(__name__)
OnStored = Callable[[Trajectory], None]


@dataclass(frozen=True, slots=True)
class Acting:
    """Who acts, and how it is shown the world."""

    policy: Policy
    renderer: GuardedRenderer
    profile: Profile


@dataclass(slots=True)
class Tally:
    """What the rollouts did since it was last read. idle: seconds workers waited for room, summed.
    phases: seconds by phase of an episode, summed."""

    episodes: int = 0
    action_tokens: int = 0
    rewards: list[float] = field(default_factory=list)
    terminations: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    worker_deaths: int = 0
    idle: float = 0.0
    turns: list[int] = field(default_factory=list)
    phases: Counter[str] = field(default_factory=Counter)


class Rollouts:
    """Runs until it is cancelled. `room`: asked before a new prompt is drawn; call `wake` when its answer may change."""

    def __init__(
        self,
        config: OnlineConfig,
        acting: Acting,
        curriculum: Curriculum,
        runner: EpisodeRunner,
        *,
        room: Callable[[int], bool],
        on_stored: OnStored,
        on_lost: Callable[[str], None],
    ) -> None:
        """on_lost: told the group of an episode that will never be."""
        self.config = config
        self.acting = acting
        self.curriculum = curriculum
        self.runner = runner
        self.tally = Tally()
        self.in_flight = 0
        self._room = room
        self._on_stored = on_stored
        self._on_lost = on_lost
        self._changed = asyncio.Event()
        self._queue: deque[Job] = deque()
        self._prompt = 0
        self._failures_in_a_row = 0
        self._deaths: Counter[str] = Counter()

    async def resume(self) -> None:
        """Go on where the store says that an earlier call of this run stopped."""
        found = await asyncio.to_thread(self._stored)
        self._prompt = max(found, default=-1) + 1
        for prompt, (digest, members) in sorted(found.items()):
            task = self.curriculum.tasks.get(digest)
            if task is not None and len(members) < self.config.group_size:
                self._queue += [job for job in self._group(prompt, task) if job.repeat not in members]

    async def run(self) -> None:
        """Work until cancelled. Raises RolloutsStalled and StoreError."""
        try:
            await together(self._worker() for _ in range(self.config.concurrency))
        finally:
            await self.runner.close()

    def wake(self) -> None:
        """Room may have appeared."""
        self._changed.set()

    def read(self) -> Tally:
        """What was done since the last call."""
        found, self.tally = self.tally, Tally()
        return found

    async def _worker(self) -> None:
        while True:
            waited = time.monotonic()
            job = await self._next()
            self.tally.idle += time.monotonic() - waited
            try:
                await self._episode(job)
            except AgentGymError:
                raise
            except Exception as error:  # whatever killed this worker: its episode is run again, by the next
                self._mourn(job, error)
            finally:
                self.in_flight -= 1
                self._changed.set()

    async def _next(self) -> Job:
        while not self._queue:
            if self._room(self.in_flight):
                self._queue += self._group(self._prompt, self.curriculum.draw(self._prompt))
                self._prompt += 1
                break
            self._changed.clear()
            await self._changed.wait()
        self.in_flight += 1
        return self._queue.popleft()

    async def _episode(self, job: Job) -> None:
        id_ = job.trajectory_id(self.runner.run_id)
        try:
            trajectory = await self.runner.run(job, id_)
            if trajectory is None:  # a worker that died after it had stored the episode
                trajectory = await asyncio.to_thread(self.runner.store.get, id_)
        except SandboxError as error:
            _log.warning("task %s is left out: %s", job.task.id, error)
            self.curriculum.leave_out(job.task.digest)
            self._on_lost(job.group_id)
            return
        self._count(trajectory)
        self.curriculum.record(trajectory.task_digest, trajectory.reward, turns=job.profile.limits.max_turns)
        self._on_stored(trajectory)
        self._failures_in_a_row = self._failures_in_a_row + 1 if trajectory.termination.is_failure else 0
        if self._failures_in_a_row >= 4 * self.config.concurrency + 16:
            raise RolloutsStalled(
                f"the last {self._failures_in_a_row} episodes failed for reasons that are not the policy's, "
                f"the last one with: {trajectory.error}",
                hint="agentgym doctor; look at the policy server's log",
            )

    def _mourn(self, job: Job, error: Exception) -> None:
        self.tally.worker_deaths += 1
        self._deaths[job.key] += 1
        _log.warning("a rollout worker died on task %s", job.task.id, exc_info=error)
        if self._deaths[job.key] > self.config.worker_retries:
            raise RolloutsStalled(
                f"the episode on task {job.task.id} killed {self._deaths[job.key]} workers: {error!r}"
            ) from error
        self._queue.appendleft(job)

    def _count(self, trajectory: Trajectory) -> None:
        tally = self.tally
        tally.episodes += 1
        tally.action_tokens += sum(len(call.generation_token_ids) for call in trajectory.calls)
        tally.terminations[trajectory.termination.value] += 1
        tally.turns.append(len(trajectory.calls))
        tally.phases.update(trajectory.timings)
        tally.retries += len(trajectory.metadata.get("earlier_failures", ()))
        if trajectory.reward is not None:
            tally.rewards.append(trajectory.reward)

    def _group(self, prompt: int, task: Task) -> list[Job]:
        profile = self._profile(self.curriculum.horizon)
        return [
            Job(
                task,
                self.acting.policy,
                self.acting.renderer,
                profile,
                repeat=member,
                seed=_seed(self.config.seed, prompt, member),
                group_id=f"{self.runner.run_id}:{prompt}",
            )
            for member in range(self.config.group_size)
        ]

    def _profile(self, turns: int) -> Profile:
        profile = self.acting.profile
        return profile.model_copy(update={"limits": profile.limits.model_copy(update={"max_turns": turns})})

    def _stored(self) -> dict[int, tuple[str, set[int]]]:
        """Per prompt: its task, and which members are in the store."""
        found: dict[int, tuple[str, set[int]]] = {}
        members = range(self.config.group_size)
        for summary in self.runner.store.query(TrajectoryFilter(run_id=self.runner.run_id)):
            self.curriculum.record(summary.task_digest, summary.reward)
            number = summary.group_id.rpartition(":")[2]
            if not number.isdigit():
                continue
            prompt = int(number)
            done = {member for member in members if _seed(self.config.seed, prompt, member) == summary.seed}
            found.setdefault(prompt, (summary.task_digest, set()))[1].update(done)
        return found


def _seed(seed: int, prompt: int, member: int) -> int:
    return int(np.random.SeedSequence([seed, prompt, member]).generate_state(1)[0])
