"""The engine dies, we die, the disk fills up, in mid-run: nothing finished is lost, nothing cut counts, nothing is left."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from .conftest import Dockerd, Run

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

GRADED = ["submitted", 0.0]
FAILED = ["environment_failure", None]


async def reap(engine: Dockerd) -> None:
    command = ["-m", "agentgym", "sandbox", "reap", "--json"]
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, *command], env=engine.environment, capture_output=True, check=True
    )
    print(done.stdout.decode())


def all_accounted(report: dict, episodes: int) -> None:
    assert report["failed"] == {}
    assert len(report["endings"]) == episodes
    assert all(ending in (GRADED, FAILED) for ending in report["endings"]), report


async def test_an_engine_that_is_killed_and_restarted_costs_time_and_no_episode(stocked: Dockerd, run: Run):
    await run.begin()
    await run.until("stored")
    await run.until("phase", "tool")
    stocked.kill()
    await asyncio.sleep(3)
    await asyncio.to_thread(stocked.start)
    report = await run.report()
    all_accounted(report, 6)
    assert report["endings"].count(GRADED) == 6, "the retries were enough"
    assert report["starts_repeated"] > 0, "it was felt"
    await reap(stocked)
    assert stocked.left() == []


async def test_what_a_killed_run_finished_is_kept_and_the_rest_is_done_by_the_next(stocked: Dockerd, run: Run):
    await run.begin()
    await run.until("stored", count=2)
    await run.until("phase", "tool")
    await run.kill()
    assert stocked.left() != [], "it left sandboxes"
    await reap(stocked)
    assert stocked.left() == []
    await run.begin()
    report = await run.report()
    all_accounted(report, 6)
    assert 2 <= report["skipped"] < 6
    assert report["endings"] == [GRADED] * 6
    assert stocked.left() == []


async def test_a_full_disk_is_waited_out(stocked: Dockerd, run: Run):
    filler = stocked.disk / "filler"
    await run.begin()
    await run.until("stored")
    subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=1M"], capture_output=True, check=False)
    try:
        await asyncio.sleep(5)
    finally:
        filler.unlink()
    report = await run.report()
    all_accounted(report, 6)
    await reap(stocked)
    assert stocked.left() == []
