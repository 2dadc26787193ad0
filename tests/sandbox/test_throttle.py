"""Starts in flight are few, fewer while the engine fails, and a failed start is repeated only where that is safe."""

from __future__ import annotations

import asyncio
import time

import pytest

from agentgym.sandbox import throttle as module
from agentgym.sandbox.protocol import StartError
from agentgym.sandbox.throttle import Throttle


class Engine:
    """Gives a number after a moment, or the errors it is told to give first."""

    def __init__(self, errors: list[Exception] | None = None) -> None:
        self.errors = errors or []
        self.running = self.most = self.calls = 0

    async def start(self) -> int:
        self.calls += 1
        number = self.calls
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0.01)
            if self.errors:
                raise self.errors.pop(0)
            return number
        finally:
            self.running -= 1


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "_LONGEST_PAUSE_S", 0.05)


async def test_no_more_starts_are_in_flight_than_allowed():
    engine, throttle = Engine(), Throttle(3)
    await asyncio.gather(*(throttle.run(engine.start) for _ in range(20)))
    assert (engine.calls, engine.most, throttle.running, throttle.waiting) == (20, 3, 0, 0)


async def test_errors_are_waited_out_and_every_start_succeeds():
    engine, throttle = Engine([StartError("the daemon is restarting")] * 9), Throttle(4)
    results = await asyncio.gather(*(throttle.run(engine.start) for _ in range(6)))
    assert len(set(results)) == 6
    assert throttle.retries == 9


async def test_a_failing_engine_is_asked_for_one_at_a_time_until_it_recovers():
    engine, throttle = Engine([StartError("overwhelmed")] * 6), Throttle(8)
    await asyncio.gather(*(throttle.run(engine.start) for _ in range(8)))
    engine.most = 0
    await asyncio.gather(*(throttle.run(engine.start) for _ in range(3)))
    assert engine.most < 8
    await asyncio.gather(*(throttle.run(engine.start) for _ in range(60)))
    engine.most = 0
    await asyncio.gather(*(throttle.run(engine.start) for _ in range(16)))
    assert engine.most == 8


async def test_what_no_retry_mends_is_raised_at_once():
    engine, throttle = Engine([StartError("no such image", retry_safe=False)]), Throttle(2)
    with pytest.raises(StartError, match="no such image"):
        await throttle.run(engine.start)
    assert engine.calls == 1


async def test_patience_ends():
    engine, throttle = Engine([StartError("down")] * 1000), Throttle(2, patience_s=0.2)
    began = time.monotonic()
    with pytest.raises(StartError, match="down"):
        await throttle.run(engine.start)
    assert time.monotonic() - began < 2
    assert engine.calls > 3


async def test_a_cancelled_start_frees_its_slot():
    engine, throttle = Engine(), Throttle(1)
    tasks = [asyncio.create_task(throttle.run(engine.start)) for _ in range(4)]
    await asyncio.sleep(0)
    for task in tasks[:3]:
        task.cancel()
    assert await tasks[3]
    assert (throttle.running, throttle.waiting, throttle.free) == (0, 0, True)
