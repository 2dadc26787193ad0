"""A rollout that is stopped at any moment leaves a whole store, goes on under its run id, and leaves no sandbox behind.

Moments are found by looking from outside (a container or jail with this process as its owner, a row in the store), then
moved by a random delay, so that repeated runs of the suite cover start, tools, grading and storing.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from agentgym.sandbox.images import connect
from agentgym.sandbox.labels import PREFIX
from agentgym.sandbox.paths import state_dir
from agentgym.sandbox.protocol import BackendUnavailable
from agentgym.tasks import shipped_tasks

COMMAND = (sys.executable, "-m", "agentgym")
ROLLOUTS = 4
CTRL_C_SECONDS = 15.0
"""How long Ctrl-C may take here: seconds on an idle machine, more where the suite shares two cores with others."""


@pytest.fixture(params=["docker", "local"])
def backend(request: pytest.FixtureRequest) -> str:
    done = agentgym("sandbox", "reap", "--json")
    if json.loads(done.stdout)["removed"][request.param] is None:
        pytest.skip(f"no {request.param} backend on this machine")
    return request.param


def agentgym(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=120)


def rollout(store: Path, backend: str, task: str = "tutorial-duration") -> list[str]:
    options = ["--policy", "gold", "--any-status", "--rollouts", str(ROLLOUTS), "--concurrency", "2"]
    return ["rollout", task, *options, "--run-id", "r", "--backend", backend, "--store", str(store), "--json"]


@contextlib.contextmanager
def running(arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    process = subprocess.Popen([*COMMAND, *arguments], stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until(happened: Callable[[], bool], process: subprocess.Popen[str], patience: float = 120.0) -> None:
    deadline = time.monotonic() + patience
    while not happened() and process.poll() is None:
        assert time.monotonic() < deadline, "the moment never came"
        time.sleep(0.05)


def sandboxes(pid: int) -> list[str]:
    """What exists with this process as its owner, in both backends."""
    found: list[str] = []
    with contextlib.suppress(BackendUnavailable), contextlib.closing(connect(10)) as engine:
        labels = {"label": f"{PREFIX}pid={pid}"}
        found += [container["Id"] for container in engine.containers(all=True, filters=labels)]
        found += [image["Id"] for image in engine.images(filters=labels)]
    for lease in (state_dir() / "local").glob("*/lease.json"):
        with contextlib.suppress(OSError):
            if json.loads(lease.read_text())["labels"][f"{PREFIX}pid"] == str(pid):
                found.append(lease.parent.name)
    return found


def stored(store: Path) -> int:
    try:
        with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT count(*) FROM trajectory").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def assert_whole(store: Path) -> None:
    if store.exists():
        report = json.loads(agentgym("store", "check", "--store", str(store), "--json").stdout)
        assert report["ok"], report
        assert report["trajectories"] == stored(store)


def interrupted_at(moment: Callable[[int], bool], arguments: list[str], number: int) -> tuple[int, int, float, str]:
    """(pid, exit code, seconds from the signal to the end, stdout) of a run that gets signal `number` after `moment`."""
    with running(arguments) as process:
        wait_until(lambda: moment(process.pid), process)
        time.sleep(random.uniform(0.0, 1.5))
        sent = time.monotonic()
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
        return process.pid, process.returncode, time.monotonic() - sent, out


def assert_it_goes_on(store: Path, backend: str) -> None:
    """The same command again does exactly what is missing."""
    before = stored(store)
    done = agentgym(*rollout(store, backend))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["skipped"] == before
    assert document["terminations"] == {"submitted": ROLLOUTS}
    assert len({one["id"] for one in document["trajectories"]}) == ROLLOUTS == stored(store)
    assert_whole(store)


def first_sandbox(pid: int) -> bool:
    return bool(sandboxes(pid))


def moments(store: Path) -> Iterator[Callable[[int], bool]]:
    """One after the other, since the second is a trajectory more than the run before has left: with any at all, the signal
    would find a Python that still loads modules."""
    yield first_sandbox
    before = stored(store)
    yield lambda pid: stored(store) > before


def test_ctrl_c_leaves_no_sandbox_and_the_run_goes_on(backend: str, tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    for moment in moments(store):
        pid, code, seconds, out = interrupted_at(moment, rollout(store, backend), signal.SIGINT)
        left = sandboxes(pid)
        assert not left
        if code == 0:  # it was through before the signal came
            break
        assert code == 130
        assert seconds < CTRL_C_SECONDS
        assert json.loads(out)["error"]["type"] == "Interrupted"
        assert_whole(store)
    assert_it_goes_on(store, backend)


def test_sigkill_leaves_only_what_reap_removes_and_the_run_goes_on(backend: str, tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    owners: list[int] = []
    for moment in chain([lambda pid: store.exists()], moments(store)):
        pid, *_ = interrupted_at(moment, rollout(store, backend), signal.SIGKILL)
        owners.append(pid)
        assert_whole(store)
    assert agentgym("sandbox", "reap").returncode == 0
    assert [one for pid in owners for one in sandboxes(pid)] == []
    assert_it_goes_on(store, backend)


def test_a_scheduler_s_sigterm_clears_up_like_ctrl_c(tmp_path: Path, backend: str) -> None:
    store = tmp_path / "store.db"
    pid, code, _, _ = interrupted_at(first_sandbox, rollout(store, backend), signal.SIGTERM)
    assert code in (0, 128 + signal.SIGTERM)
    assert sandboxes(pid) == []


def test_an_impatient_second_ctrl_c_still_leaves_no_sandbox_after_reap(tmp_path: Path, backend: str) -> None:
    store = tmp_path / "store.db"
    with running(rollout(store, backend)) as process:
        wait_until(lambda: first_sandbox(process.pid), process)
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        process.communicate(timeout=60)
    assert process.returncode in (0, 130)
    agentgym("sandbox", "reap")
    assert sandboxes(process.pid) == []
    assert_whole(store)


def test_ctrl_c_during_an_image_build_ends_at_once_and_leaves_no_build(tmp_path: Path) -> None:
    try:
        engine = connect(10)
    except BackendUnavailable as error:
        pytest.skip(f"no Docker engine: {error}")
    task, mark = task_that_builds_for_long(tmp_path)

    def building() -> list[str]:
        return [one["Id"] for one in engine.containers() if mark in one["Command"]]

    with running(rollout(tmp_path / "store.db", "docker", str(task))) as process:
        wait_until(
            lambda: bool(building()), process, patience=400.0
        )  # the base system is made first where it is missing
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert time.monotonic() - sent < CTRL_C_SECONDS
    deadline = time.monotonic() + 20
    while left := building():
        assert time.monotonic() < deadline, f"the engine goes on building for nobody: {left}"
        time.sleep(0.2)
    engine.close()


def task_that_builds_for_long(tmp_path: Path) -> tuple[Path, str]:
    """A copy of the tutorial task whose build sleeps for minutes; and the text that marks its command."""
    (tutorial,) = [path for path in shipped_tasks() if path.name == "tutorial-duration"]
    task = tmp_path / "slow-build"
    shutil.copytree(tutorial, task)
    mark = f"slow-build-{os.getpid()}-{time.time_ns()}"
    dockerfile = task / "environment/Dockerfile"
    dockerfile.write_text(f"{dockerfile.read_text()}\nRUN echo {mark} && sleep 300\n")
    return task, mark
