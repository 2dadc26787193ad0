"""Who waits and who starts: limits hold, nobody is passed over, nothing deadlocks (no engine needed)."""

from __future__ import annotations

import asyncio

import pytest

from agentgym.errors import InputError
from agentgym.sandbox.admission import Admission, Lease
from agentgym.sandbox.capacity import Capacity, Cost, from_environment
from agentgym.sandbox.protocol import Limits

ONE = Cost(100, 1.0)


def admission(live: int = 100, memory_mb: int = 100_000, cpus: float = 1000.0) -> Admission:
    return Admission(Capacity(live, memory_mb, cpus, starting=4))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def admitted_in_a_task(queue: Admission, cost: Cost = ONE) -> asyncio.Task[Lease]:
    """A start of somebody who holds nothing."""
    task = asyncio.create_task(queue.admit(cost))
    await settle()
    return task


@pytest.mark.parametrize(
    ("queue", "fit"), [(admission(live=8), 7), (admission(memory_mb=800), 7), (admission(cpus=8.0), 7)]
)
async def test_what_does_not_fit_waits_until_something_ends(queue: Admission, fit: int):
    tasks = [await admitted_in_a_task(queue) for _ in range(fit + 2)]
    assert [task.done() for task in tasks] == [True] * fit + [False] * 2
    assert (queue.live, queue.waiting) == (fit, 2)
    tasks[0].result().release()
    tasks[0].result().release()  # twice is once
    await settle()
    assert (queue.live, queue.waiting) == (fit, 1)
    assert [task.done() for task in tasks[fit:]] == [True, False]
    tasks[-1].cancel()


async def test_a_large_one_is_not_passed_over():
    queue = admission(memory_mb=1000)
    small = await admitted_in_a_task(queue, Cost(500, 1.0))
    large = await admitted_in_a_task(queue, Cost(800, 1.0))
    late = await admitted_in_a_task(queue, Cost(100, 1.0))
    assert (large.done(), late.done()) == (False, False)
    small.result().release()
    await settle()
    assert (large.done(), late.done()) == (True, False)
    late.cancel()


async def test_one_larger_than_everything_runs_alone():
    queue = admission(memory_mb=1000)
    huge = await admitted_in_a_task(queue, Cost(50_000, 1.0))
    other = await admitted_in_a_task(queue)
    assert (huge.done(), other.done()) == (True, False)
    huge.result().release()
    await settle()
    assert other.done()


async def test_a_cancelled_waiter_leaves_no_trace():
    queue = admission(live=2)
    first = await admitted_in_a_task(queue)
    waiting = await admitted_in_a_task(queue)
    behind = await admitted_in_a_task(queue)
    waiting.cancel()
    first.result().release()  # in the same turn: the cancelled one may have been answered already
    await settle()
    assert behind.done()
    behind.result().release()
    assert (queue.live, queue.waiting, queue.committed) == (0, 0, Cost(0, 0.0))


@pytest.mark.parametrize("live", [1, 2, 3, 8, 16])
async def test_holders_that_ask_for_another_do_not_deadlock(live: int):
    """Every episode holds one while it needs a second, and all come at once: the grading of a patch in mid-episode."""
    queue = admission(live=live)
    most = 0

    async def episode() -> None:
        nonlocal most
        mine = await queue.admit(ONE)
        await asyncio.sleep(0.001)
        grading = await queue.admit(ONE)
        most = max(most, queue.live)
        await asyncio.sleep(0.001)
        grading.release()
        mine.release()

    async with asyncio.timeout(20):
        await asyncio.gather(*(episode() for _ in range(50)))
    assert (queue.live, queue.waiting) == (0, 0)
    assert most <= live + 1, "the limit is exceeded by one at most, and only to dissolve a deadlock"
    assert queue.overdrafts == 0 or live < 8


async def test_three_levels_deep_does_not_deadlock_either():
    queue = admission(live=4)

    async def nested(depth: int) -> None:
        lease = await queue.admit(ONE)
        await asyncio.sleep(0)
        if depth:
            await nested(depth - 1)
        lease.release()

    async with asyncio.timeout(20):
        await asyncio.gather(*(nested(3) for _ in range(20)))
    assert queue.live == 0


async def test_a_deadlock_is_dissolved_only_where_there_is_one():
    """As long as one holder does not wait, it may release: nobody is admitted over the limit."""
    queue = admission(live=2)
    busy = await admitted_in_a_task(queue)

    async def episode() -> None:
        mine = await queue.admit(ONE)
        (await queue.admit(ONE)).release()
        mine.release()

    task = asyncio.create_task(episode())
    await settle()
    assert (queue.live, queue.waiting, queue.overdrafts) == (1, 1, 0)  # the episode's own has to wait: one is reserved
    busy.result().release()
    await task
    assert (queue.live, queue.overdrafts) == (0, 0)


async def test_spare_capacity_is_what_nobody_waits_for():
    queue = admission(live=8)
    leases = [queue.spare(ONE) for _ in range(8)]
    assert [lease is not None for lease in leases] == [True] * 7 + [False], "the reserve is not spare"
    pressed: list[Cost] = []
    queue.on_pressure = pressed.append
    waiting = await admitted_in_a_task(queue)
    assert pressed == [ONE]
    assert queue.spare(ONE) is None
    assert leases[0]
    leases[0].release()
    await settle()
    assert waiting.done()


def test_the_numbers_come_from_the_machine_and_may_be_replaced():
    capacity = Capacity.of_machine(2, 24 << 30)
    assert capacity.holds(Limits()) == 10
    assert capacity.holds(Limits(memory_mb=64, cpus=0.1)) > 200
    replaced = from_environment(capacity, {"AGENTGYM_CAPACITY": "live=3, cpus=1.5"})
    assert (replaced.live, replaced.cpus, replaced.memory_mb) == (3, 1.5, capacity.memory_mb)
    for wrong in ("live=0", "live=many", "lives=3", "live"):
        with pytest.raises(InputError, match="AGENTGYM_CAPACITY"):
            from_environment(capacity, {"AGENTGYM_CAPACITY": wrong})
