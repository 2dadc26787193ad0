"""What a store survives: many writing processes, SIGKILL at any moment, a full disk, a torn file."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentgym.store import Store
from agentgym.store.check import check_store

forked = multiprocessing.get_context("fork")


def test_sixteen_writing_processes_lose_nothing(store, store_url, make_trajectory) -> None:
    def write(process: int) -> None:
        with Store.open(store_url) as own:
            for i in range(8):
                own.add(make_trajectory(id=f"{process}-{i}", run_id=f"r{process}"))

    processes = [forked.Process(target=write, args=(i,)) for i in range(16)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * 16
    assert {summary.id for summary in store.query()} == {f"{p}-{i}" for p in range(16) for i in range(8)}
    assert check_store(store).ok


def test_a_forked_child_may_use_its_parents_store(store, make_trajectory) -> None:
    store.add(make_trajectory(id="parent"))
    child = forked.Process(target=lambda: store.add(make_trajectory(id="child")))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert [summary.id for summary in store.query()] == ["parent", "child"]


def test_sigkill_at_any_moment_leaves_whole_trajectories_and_every_confirmed_one(
    store, store_url, make_call, make_trajectory
) -> None:
    """Twelve writers are killed at random moments of long writes; whatever `add` confirmed is there, and only whole."""
    chaos = random.Random(5)
    noise = [chaos.randrange(49_000) for _ in range(200_000)]  # incompressible: a write takes many pages
    confirmed: set[str] = set()

    def write(round_number: int, pipe: int) -> None:
        with Store.open(store_url) as own:
            for i in range(10_000):
                call = make_call(noise[i : i + 150_000], [1])
                own.add(make_trajectory(call, steps=(), id=f"{round_number}-{i}"))
                os.write(pipe, f"{round_number}-{i}\n".encode())

    for round_number in range(12):
        reader, writer = os.pipe()
        process = forked.Process(target=write, args=(round_number, writer))
        process.start()
        os.close(writer)
        first = os.read(reader, 64)  # the writer is at full speed
        time.sleep(chaos.uniform(0, 0.12))
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join(60)
        with os.fdopen(reader, "rb") as rest:
            confirmed |= set((first + rest.read()).decode().split())
    stored = {summary.id for summary in store.query()}
    assert stored >= confirmed
    assert len(stored) <= len(confirmed) + 12  # one write each may have been committed but not yet confirmed
    report = check_store(store)
    assert report.ok, report.faults
    assert store.add(make_trajectory()) is True


@pytest.fixture
def small_disk(tmp_path: Path) -> list[str]:
    """A command prefix that runs a Python program with a 3 MB file system of its own mounted at `tmp_path/disk`."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("unshare (util-linux) is not installed")
    (tmp_path / "disk").mkdir()
    script = f'mount -t tmpfs -o size=3m none {tmp_path / "disk"} && exec "$0" "$@"'
    prefix = [unshare, "--mount", "--map-root-user", "--user", "sh", "-c", script]
    probe = subprocess.run([*prefix, "true"], capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"no private file system can be mounted here: {probe.stderr.strip()}")
    return [*prefix, sys.executable]


def test_a_full_disk_is_an_error_before_loss(small_disk, tmp_path) -> None:
    program = """
import sys
from pathlib import Path
import numpy as np
from agentgym.store import Store, StoreError
from agentgym.store.check import check_store
from agentgym.store.records import *

disk = Path(sys.argv[1])
ballast = disk / "ballast"
ballast.write_bytes(bytes(1 << 20))
noise = np.random.default_rng(0)

def trajectory(i):
    call = ModelCall(noise.integers(0, 49000, 60_000).astype(np.int32), np.array([1], np.int32), np.zeros(1, np.float32),
                     Sampling(), (VersionSpan(0, 0, 1),), FinishReason.STOP)
    return Trajectory("t", "d", "h", "local", "i", "p", PolicyKind.MODEL, (call,), (), Termination.SUBMITTED, 1.0, id=str(i))

store = Store.open(disk / "store.db")
written = []
while True:
    lost = trajectory(len(written))
    try:
        store.add(lost)
    except StoreError as error:
        assert "disk" in str(error) and "free some space" in str(error), error
        break
    written.append(lost.id)
assert len(written) >= 3
assert {s.id for s in store.query()} == set(written)
assert check_store(store).ok
store.close()
with Store.open(disk / "store.db") as again:   # also after a restart on the full disk
    assert {s.id for s in again.query()} == set(written)
    ballast.unlink()
    assert again.add(lost) is True
    assert check_store(again).ok
print("survived", len(written))
"""
    command = [*small_disk, "-c", program, tmp_path / "disk"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("survived")


def test_a_torn_page_costs_only_the_trajectory_on_it(tmp_path: Path, make_call, make_trajectory) -> None:
    path = tmp_path / "store.db"
    noise = random.Random(1)
    with Store.open(path) as store:
        for name in "abcde":
            call = make_call([noise.randrange(49_000) for _ in range(20_000)], [1])
            store.add(make_trajectory(call, steps=(), id=name, created_at=1.0))
        blobs = {summary.id: tokens for summary, tokens, _ in store.iter_blobs()}
    content = path.read_bytes()
    pieces = (blobs["c"][start : start + 64] for start in range(20_000, 24_000, 500))
    at = (
        next(place for piece in pieces if (place := content.find(piece)) >= 0) // 4096 * 4096
    )  # one is cut by a page's end
    path.write_bytes(content[:at] + b"\xff" * 4096 + content[at + 4096 :])

    with Store.open(path) as store:
        damaged: list[str] = []
        read = [trajectory.id for trajectory in store.iter(on_corrupt=lambda name, _: damaged.append(name))]
        assert (read, damaged) == (["a", "b", "d", "e"], ["c"])
        report = check_store(store)
        assert "c" in {fault.trajectory_id for fault in report.faults}
        assert {fault.trajectory_id for fault in report.faults} <= {"", "c"}
        assert report.trajectories == 4
