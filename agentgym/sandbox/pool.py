"""Sandboxes started ahead of need, so that an episode or a grading takes one in milliseconds.

A *shelf* per image and limits keeps as many as the largest burst of starts of the last minute, from the second start
on, but no more than the engine starts in two rounds; a minute without demand empties it. What is taken is never put
back: whoever had it closes it, and a fresh one takes its place. Before it is handed out it must answer a command, so
one that died on the shelf (its engine was restarted) costs a moment and no episode.

The pool lives on spare capacity alone: it starts nothing while anybody waits for admission or for a start, and gives up
what it has as soon as somebody does. Its sandboxes carry the same labels as all others, so a reaper finds those of a
killed process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial

from agentgym.sandbox.admission import Admission, Lease
from agentgym.sandbox.capacity import Cost
from agentgym.sandbox.protocol import Image, Limits, Sandbox, SandboxError
from agentgym.sandbox.throttle import Throttle

logger = logging.getLogger(__name__)

KEEP_S = 60.0
"""How long demand is remembered, and how long a sandbox stays on its shelf."""
_BURST_S = 2.0
_CHECK_S = 5.0

Start = Callable[[Image, Limits], Awaitable[Sandbox]]
_Key = tuple[str, Limits]


@dataclass(eq=False, slots=True)
class _Warm:
    sandbox: Sandbox
    lease: Lease
    timer: asyncio.TimerHandle | None = None


@dataclass(slots=True)
class _Shelf:
    image: Image
    limits: Limits
    ready: deque[_Warm] = field(default_factory=deque)
    starting: int = 0
    demand: deque[float] = field(default_factory=deque)

    def wanted(self) -> int:
        """The most starts that came within two seconds of each other, of those remembered."""
        oldest = time.monotonic() - KEEP_S
        while self.demand and self.demand[0] < oldest:
            self.demand.popleft()
        if len(self.demand) < 2:
            return 0
        most, first = 0, 0
        for last, when in enumerate(self.demand):
            while when - self.demand[first] > _BURST_S:
                first += 1
            most = max(most, last - first + 1)
        return most


class Pool:
    def __init__(self, start: Start, admission: Admission, throttle: Throttle) -> None:
        self._start = start
        self._admission = admission
        self._throttle = throttle
        self._shelves: dict[_Key, _Shelf] = {}
        self._fills: set[asyncio.Task[Sandbox | None]] = set()
        self._ends: set[asyncio.Task[None]] = set()
        self._closed = False
        self._most = max(2, admission.capacity.live // 4)
        self._most_of_one = 2 * admission.capacity.starting
        self.hits = 0

    @property
    def idle(self) -> int:
        return sum(len(shelf.ready) for shelf in self._shelves.values())

    async def take(self, image: Image, limits: Limits) -> tuple[Sandbox, Lease] | None:
        """A warm sandbox that answers, with its lease, or None. Either way the demand is remembered."""
        shelf = self._shelves.setdefault((image.ref, limits), _Shelf(image, limits))
        shelf.demand.append(time.monotonic())
        while shelf.ready:
            warm = shelf.ready.popleft()
            if warm.timer:
                warm.timer.cancel()
            try:
                healthy = await _answers(warm.sandbox)
            except BaseException:
                self._discard(warm)
                raise
            if healthy:
                self.hits += 1
                return warm.sandbox, warm.lease
            logger.info("a warm sandbox was dead and is replaced: %s", warm.sandbox.id)
            self._discard(warm)
        return None

    def refill(self) -> None:
        """Starts what the shelves lack, as far as capacity is spare. Call after every start and every end."""
        for key, shelf in list(self._shelves.items()):
            wanted = min(shelf.wanted(), self._most_of_one)
            if not (shelf.demand or shelf.ready or shelf.starting):
                del self._shelves[key]
            while not self._closed and len(shelf.ready) + shelf.starting < wanted:
                if not self._throttle.free or self.idle + self._starting >= self._most:
                    return
                lease = self._admission.spare(Cost.of(shelf.limits))
                if lease is None:
                    return
                shelf.starting += 1
                task = asyncio.create_task(self._fill(shelf))
                self._fills.add(task)
                task.add_done_callback(self._fills.discard)
                task.add_done_callback(partial(self._filled, shelf=shelf, lease=lease))

    def give_way(self, cost: Cost) -> None:
        """Closes idle sandboxes, the longest idle first, until about `cost` is freed."""
        memory_mb, cpus = cost.memory_mb, cost.cpus
        everything = sorted(
            (
                (warm.timer.when() if warm.timer else 0.0, shelf, warm)
                for shelf in self._shelves.values()
                for warm in shelf.ready
            ),
            key=lambda entry: entry[0],
        )
        for _, shelf, warm in everything:
            if memory_mb <= 0 and cpus <= 0:
                return
            self._drop(shelf, warm)
            memory_mb -= warm.lease.cost.memory_mb
            cpus -= warm.lease.cost.cpus

    async def close(self) -> None:
        """Ends starts on their way and closes what is idle."""
        self._closed = True
        for task in self._fills:
            task.cancel()
        for shelf in self._shelves.values():
            for warm in list(shelf.ready):
                self._drop(shelf, warm)
        while tasks := self._fills | self._ends:
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def _starting(self) -> int:
        return sum(shelf.starting for shelf in self._shelves.values())

    async def _fill(self, shelf: _Shelf) -> Sandbox | None:
        # Its lifetime begins when it is taken; until then it may wait here.
        limits = replace(shelf.limits, lifetime_s=shelf.limits.lifetime_s + KEEP_S)
        try:
            return await self._throttle.run(lambda: self._start(shelf.image, limits))
        except SandboxError as error:
            logger.warning("no warm sandbox of %s: %s", shelf.image.spec.name, error)
            return None

    def _filled(self, task: asyncio.Task[Sandbox | None], shelf: _Shelf, lease: Lease) -> None:
        """Runs also for a task that was cancelled before it began."""
        shelf.starting -= 1
        sandbox = None if task.cancelled() or task.exception() else task.result()
        if sandbox is None:
            lease.release()
            return
        warm = _Warm(sandbox, lease)
        if self._closed or self._admission.waiting:
            self._discard(warm)
            return
        shelf.ready.append(warm)
        warm.timer = asyncio.get_running_loop().call_later(KEEP_S, self._drop, shelf, warm)
        self.refill()

    def _drop(self, shelf: _Shelf, warm: _Warm) -> None:
        if warm in shelf.ready:
            shelf.ready.remove(warm)
            if warm.timer:
                warm.timer.cancel()
            self._discard(warm)

    def _discard(self, warm: _Warm) -> None:
        task = asyncio.create_task(_end(warm))
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)


async def _answers(sandbox: Sandbox) -> bool:
    try:
        async with asyncio.timeout(_CHECK_S):
            result = await sandbox.exec("true", timeout=_CHECK_S)
    except (SandboxError, TimeoutError):
        return False
    return result.exit_code == 0 and not result.reopened


async def _end(warm: _Warm) -> None:
    try:
        with contextlib.suppress(SandboxError):  # the reaper finds by its labels what could not be removed
            await warm.sandbox.close()
    finally:
        warm.lease.release()
