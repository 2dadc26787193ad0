"""The loop that joins rollouts and learner.

    async   rollouts ──store──▶ feed ──batch──▶ update ─▶ checkpoint ─▶ publish ─┐
               ▲                                                                 │   nobody waits for an episode to end;
               └──────────────── new weights, under running episodes ◀───────────┘   a publish holds requests for its second

    sync    the same parts in turn: gather one batch, update and publish while nothing runs

A checkpoint comes before each publish, so that no version is ever served that a resumed run would make differently. What a
killed run leaves is its store and its checkpoints: the next call judges every stored trajectory again, uses none that an
update in the checkpoint used, and rolls on where the store ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from agentgym.sandbox.protocol import SandboxBackend
from agentgym.store import Store, Trajectory
from agentgym.tasks import Task
from harness.engine import EpisodeRunner
from harness.engine import OnEvent as OnRollout
from harness.episode import run_episode
from harness.progress import marked
from trainer.evidence import Evidence
from trainer.feed import Feed
from trainer.loop import TrainReport
from trainer.online.config import OnlineConfig
from trainer.online.curriculum import Curriculum
from trainer.online.measures import Board, Clock, rollout_measures
from trainer.online.patience import PatientStore
from trainer.online.publisher import Publisher
from trainer.online.rollouts import Acting, Rollouts
from trainer.run import OnEvent, TrainEvent, TrainingRun

T = TypeVar("T")
HeldOut = Callable[[int], Awaitable[dict[str, float]]]
"""Measures the policy, which is now of this version, on held-out tasks."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the loop joins. held_out: None where nothing is measured meanwhile."""

    tasks: Sequence[Task]
    acting: Acting
    backend: SandboxBackend
    publisher: Publisher
    held_out: HeldOut | None = None


class _Stopped(Exception):
    """The learner's thread was asked to end between two micro-batches."""


async def train_online(
    config: OnlineConfig, parts: Parts, store: Store, on_event: OnEvent, on_rollout: OnRollout | None = None
) -> TrainReport:
    """Take updates until the run has `config.steps` of them in this call. Cancelling it stops both sides cleanly.

    Raises RolloutsStalled, PublishError, StoreError, DivergenceError.
    """
    loop = _Loop(config, parts, PatientStore.over(store, config.patience_s), on_event, on_rollout)
    try:
        return await loop.run()
    finally:
        await loop.close()


class _Loop:
    def __init__(
        self, config: OnlineConfig, parts: Parts, store: PatientStore, on_event: OnEvent, on_rollout: OnRollout | None
    ) -> None:
        self.config, self.parts, self.store, self._tell = config, parts, store, on_event
        self._stopping = False
        self._updating = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="learner")
        self._arrived = asyncio.Event()
        self._board = Board(config.output / "tensorboard" if config.tensorboard else None)
        self._on_rollout = on_rollout or (lambda event: None)
        self._started = time.monotonic()

    async def run(self) -> TrainReport:
        config = self.config
        run = self._run = await self._in_thread(lambda: TrainingRun(config, self._progress))
        grouped = "groups" in run.learner.credit.needs
        self._feed = Feed(
            config, run.learner.credit, used=run.state.used, group_size=config.group_size if grouped else None
        )
        max_turns = self.parts.acting.profile.limits.max_turns
        curriculum = Curriculum(self.parts.tasks, config, max_turns=max_turns, seed=config.seed)
        runner = EpisodeRunner(
            config.run_id or "",
            self.store,
            self.parts.backend,
            config.environment_retries,
            self._on_rollout,
            marked(run_episode) if "progress" in run.learner.credit.needs else run_episode,
        )
        self._rollouts = Rollouts(
            config,
            self.parts.acting,
            curriculum,
            runner,
            room=self._room,
            on_stored=self._offer,
            on_lost=self._lost,
        )
        await self._rollouts.resume()
        await asyncio.to_thread(self._feed.read, self.store, version=run.learner.version)
        await self.parts.publisher.publish(run)
        if not run.state.step:
            await self._measure_held_out(0)
        rolling = asyncio.create_task(self._rollouts.run())
        learning = asyncio.create_task(self._learn())
        try:
            await asyncio.wait({rolling, learning}, return_when=asyncio.FIRST_COMPLETED)
            if rolling.done():
                await rolling  # raises: rollouts end only by failing
            return await learning
        finally:
            await _end(rolling, learning)

    async def close(self) -> None:
        """Wait for the learner's thread; what it was doing is not finished."""
        self._stopping = True
        await asyncio.to_thread(self._thread.shutdown)
        self._board.close()

    async def _learn(self) -> TrainReport:
        taken, metrics = 0, {}
        while taken < self.config.steps:
            clock = Clock()
            evidence: list[Evidence] = []
            while not evidence:
                await self._batch_waits()
                evidence = self._feed.take(self._run.learner.version)
            clock.learner_idle = clock.seconds
            self._updating = True
            metrics = await self._in_thread(lambda batch=evidence: self._update(batch))
            published = time.monotonic()
            try:
                gap = await self.parts.publisher.publish(self._run)
            except BaseException:  # the update stands in its checkpoint and is not taken again: this is its only line
                self._run.record(metrics)
                self._run.keep(self.store, metrics)
                raise
            clock.publish = time.monotonic() - published
            self._updating = False
            self._rollouts.wake()
            taken += 1
            metrics |= {"publish_gap": gap} | await self._measure_held_out(taken)
            await self._record(metrics, clock)
            self._tell(TrainEvent("step", self._run.state.step, taken, self.config.steps, metrics))
        await self._in_thread(self._run.done)
        return TrainReport.of(
            self._run, self._feed, steps=taken, metrics=metrics, seconds=time.monotonic() - self._started
        )

    def _update(self, evidence: list[Evidence]) -> dict[str, float]:
        self._run.warm_up([evidence])
        return self._run.step(evidence)

    async def _batch_waits(self) -> None:
        """Until a full batch waits, in sync mode also until nothing is under way."""
        while True:
            self._feed.drop_stale(self._run.learner.version)
            if self._feed.ready() and not (self.config.mode == "sync" and self._rollouts.in_flight):
                return
            self._tell(
                TrainEvent("gather", self._run.state.step, len(self._feed.waiting), self.config.batch_trajectories)
            )
            self._rollouts.wake()
            self._arrived.clear()
            await self._arrived.wait()

    def _room(self, in_flight: int) -> bool:
        """Whether another prompt may start: in sync mode only towards the batch being gathered."""
        wanted = self._feed.usable + in_flight
        if self.config.mode == "sync":
            return not self._updating and wanted < self.config.batch_trajectories
        return wanted < self.config.batch_trajectories * (1 + self.config.ahead)

    def _offer(self, trajectory: Trajectory) -> None:
        self._feed.offer(trajectory, version=self._run.learner.version)
        self._arrived.set()

    def _lost(self, group: str) -> None:
        if self._feed.grouped:
            self._feed.ended(group)
        self._arrived.set()

    async def _measure_held_out(self, taken: int) -> dict[str, float]:
        every = self.config.eval_every
        if not self.parts.held_out or not every or taken % every:
            return {}
        found = await self.parts.held_out(self._run.learner.version)
        if not taken:
            self._board.write(0, found)
            await asyncio.to_thread(self.store.put_metrics, self.config.recorded_as, 0, found)
        return found

    async def _record(self, metrics: dict[str, float], clock: Clock) -> None:
        rollouts = self._rollouts
        metrics |= rollout_measures(rollouts.read(), clock, concurrency=self.config.concurrency)
        metrics |= rollouts.curriculum.shares()
        dropped = self._feed.counts()
        self._run.record({**metrics, "dropped": dropped})
        numbers = metrics | {f"dropped/{reason}": float(count) for reason, count in dropped.items()}
        self._board.write(self._run.state.step, numbers)
        await asyncio.to_thread(self._run.keep, self.store, numbers)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _progress(self, event: TrainEvent) -> None:
        if self._stopping:
            raise _Stopped
        self._tell(event)


async def _end(*tasks: asyncio.Task) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
