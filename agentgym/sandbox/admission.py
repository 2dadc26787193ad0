"""Who may start a sandbox now and who waits: back-pressure in front of an engine, instead of its failure.

Every sandbox holds a `Lease` on the engine's capacity from before its start until after its removal. A start that does
not fit waits its turn, first come first served, so that a large one is not passed over for ever.

Whoever holds a sandbox and asks for another (an episode that has its patch graded while it goes on) could deadlock a
full engine: all hold, all wait. Two rules prevent it. Such *nested* starts go first and alone may use the last eighth
of the capacity. And where nevertheless each live sandbox is held by somebody who waits, one start is admitted over
the limit: it is the least that lets the others go on, and it is counted (`overdrafts`). Who holds what is kept in a
context variable, so callers need say nothing; tasks inherit it from the task that made them.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from agentgym.sandbox.capacity import Capacity, Cost

_RESERVE = 8  # one part in so many is kept for nested starts


@dataclass(eq=False, slots=True)
class Lease:
    """A share of the capacity. `release` gives it back and is safe to call twice."""

    cost: Cost
    _admission: Admission
    released: bool = False

    def release(self) -> None:
        if not self.released:
            self.released = True
            self._admission._take_back(self)


@dataclass(eq=False, slots=True)
class _Waiter:
    cost: Cost
    held: tuple[Lease, ...]
    answer: asyncio.Future[Lease]
    since: float = field(default_factory=time.monotonic)


_HELD: ContextVar[tuple[Lease, ...]] = ContextVar("agentgym_held_leases", default=())


class Admission:
    """Counts what is live. on_pressure: called when a start has to wait, with its cost; may release idle leases."""

    def __init__(self, capacity: Capacity, on_pressure: Callable[[Cost], None] = lambda cost: None) -> None:
        self.capacity = capacity
        self.on_pressure = on_pressure
        self._live: set[Lease] = set()
        self._memory_mb = 0
        self._cpus = 0.0
        self._nested: deque[_Waiter] = deque()
        self._roots: deque[_Waiter] = deque()
        self.admitted = 0
        self.overdrafts = 0
        self.waits: deque[float] = deque(maxlen=1024)

    async def admit(self, cost: Cost) -> Lease:
        """Waits until a sandbox of this cost may be started. The lease counts as held by the calling task from now on."""
        cost = self.capacity.clip(cost)
        waiter = _Waiter(cost, self._held(), asyncio.get_running_loop().create_future())
        queue = self._nested if waiter.held else self._roots
        queue.append(waiter)
        self._serve()
        try:
            if not waiter.answer.done():
                self.on_pressure(cost)
            lease = await waiter.answer
        except asyncio.CancelledError:
            if waiter in queue:
                queue.remove(waiter)
                self._serve()  # who stood behind it may fit
            elif not waiter.answer.cancelled():
                waiter.answer.result().release()
            raise
        self.admitted += 1
        self.waits.append(time.monotonic() - waiter.since)
        self.hold(lease)
        return lease

    def spare(self, cost: Cost) -> Lease | None:
        """A lease on capacity that nobody waits for, held by no task; None where there is none."""
        cost = self.capacity.clip(cost)
        return None if self.waiting or not self._fits(cost, _RESERVE) else self._grant(cost)

    def hold(self, lease: Lease) -> None:
        """From now on the calling task is one that holds this lease."""
        _HELD.set((*self._held(), lease))

    @property
    def waiting(self) -> int:
        return len(self._nested) + len(self._roots)

    @property
    def live(self) -> int:
        return len(self._live)

    @property
    def committed(self) -> Cost:
        return Cost(self._memory_mb, self._cpus)

    def _held(self) -> tuple[Lease, ...]:
        return tuple(lease for lease in _HELD.get() if not lease.released and lease in self._live)

    def _fits(self, cost: Cost, reserve: int) -> bool:
        """Whether it fits beside what is live, leaving one part in `reserve` free (0: none)."""
        if not self._live:
            return True
        share = 1 - 1 / reserve if reserve else 1.0
        whole = self.capacity
        return (
            len(self._live) + 1 <= math.floor(whole.live * share)
            and self._memory_mb + cost.memory_mb <= whole.memory_mb * share
            and self._cpus + cost.cpus <= whole.cpus * share
        )

    def _grant(self, cost: Cost) -> Lease:
        lease = Lease(cost, self)
        self._live.add(lease)
        self._memory_mb += cost.memory_mb
        self._cpus += cost.cpus
        return lease

    def _take_back(self, lease: Lease) -> None:
        self._live.discard(lease)
        self._memory_mb -= lease.cost.memory_mb
        self._cpus = self._cpus - lease.cost.cpus if self._live else 0.0
        self._serve()

    def _serve(self) -> None:
        while self._nested and self._fits(self._nested[0].cost, 0):
            self._answer(self._nested)
        while not self._nested and self._roots and self._fits(self._roots[0].cost, _RESERVE):
            self._answer(self._roots)
        if self._nested and self._all_wait():
            self.overdrafts += 1
            self._answer(self._nested)

    def _all_wait(self) -> bool:
        """True where nobody is left who could release anything."""
        stuck = {lease for waiter in self._nested for lease in waiter.held}
        return self._live <= stuck

    def _answer(self, queue: deque[_Waiter]) -> None:
        waiter = queue.popleft()
        if not waiter.answer.cancelled():
            waiter.answer.set_result(self._grant(waiter.cost))
