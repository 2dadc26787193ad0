"""Repeats differ in what grading pins, what they take is measured, and grading is retried where the machine fails."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import BackendUnavailable, SandboxBackend, StartError
from agentgym.tasks import Task, load_task, shipped_tasks
from agentgym.tasks.report import Measured
from agentgym.tasks.validation import VARIATIONS, validate
from agentgym.verify import Grade, Patch, grade

TUTORIAL = next(path for path in shipped_tasks() if path.name == "tutorial-duration")
WITNESS = """\
import os
import time

import pytest

SEEN = []


@pytest.mark.parametrize("number", range(6))
def test_order(number):
    SEEN.append(number)
    if len(SEEN) == 6:
        raise AssertionError(f"WITNESS {SEEN} {os.environ.get('PYTHONHASHSEED')} {time.tzname[0]} {os.environ.get('TZ')}")


def test_first_of_the_file():
    assert not SEEN or len(SEEN) == 6
"""


@pytest.fixture
async def backend():
    try:
        opened = await open_backend("auto", owner="tests of validation")
    except BackendUnavailable as error:
        pytest.skip(f"no sandboxes here: {error}")
    yield opened
    await opened.close()


@pytest.fixture
def witness(tmp_path: Path) -> Task:
    """A task whose last test says under which conditions it ran."""
    root = tmp_path / "tutorial-duration"
    shutil.copytree(TUTORIAL, root)
    (root / "tests/hidden/tests/test_witness.py").write_text(WITNESS)
    ids = tuple(f"tests/test_witness.py::test_order[{number}]" for number in range(6))
    return replace(load_task(root), fail_to_pass=ids, pass_to_pass=())


async def test_order_hash_seed_and_time_zone_all_vary(backend: SandboxBackend, witness: Task) -> None:
    seen = []
    for conditions in VARIATIONS[:2]:
        varied = replace(witness, test_env={**witness.test_env, **conditions.env})
        graded = await grade(varied, Patch(b""), backend, order=conditions.order)
        line = next(line for line in graded.log.splitlines() if "WITNESS" in line and "raise" not in line)
        order, _, rest = line.partition("WITNESS ")[2].partition("] ")
        seen.append((json.loads(order + "]"), *rest.split()))
    usual, varied = seen

    assert usual[0] == [0, 1, 2, 3, 4, 5]
    assert sorted(varied[0]) == usual[0]
    assert varied[0] != usual[0]
    assert (usual[1], varied[1]) == ("0", "1")
    assert varied[3] == "America/St_Johns"


async def test_the_default_is_three_repeats_and_what_they_took_is_recorded(backend: SandboxBackend) -> None:
    report = await validate(load_task(TUTORIAL), backend)

    assert (report.status, report.repeats, report.judge) == ("valid", 3, "plugin")
    assert (len(report.gold_rewards), len(report.empty_rewards)) == (3, 3)
    assert report.measured.seconds == max(*report.times.gold, *report.times.empty)
    assert report.measured.verifier_timeout_s >= 30
    if report.measured.peak_memory_mb is not None:
        assert 5 < report.measured.peak_memory_mb < 1024
        assert report.measured.memory_mb >= 256


def test_limits_leave_room_over_what_was_measured() -> None:
    measured = Measured.of([Grade(1.0, duration=10.0, peak_memory_mb=300.0), Grade(0.0, duration=12.0)])

    assert measured == Measured(seconds=12.0, peak_memory_mb=300.0, verifier_timeout_s=60.0, memory_mb=512)
    assert Measured.of([Grade(1.0)]).memory_mb is None


async def test_a_machine_that_fails_once_is_asked_again(
    backend: SandboxBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentgym.verify.grading.BACKOFF_S", 0.01)
    start, attempts = backend.start, []

    async def flaky(*arguments: object) -> object:
        attempts.append(1)
        if len(attempts) == 1:
            raise StartError("the engine was busy")
        return await start(*arguments)

    monkeypatch.setattr(backend, "start", flaky)
    task = load_task(TUTORIAL)

    result = await grade(task, Patch(task.material.gold_patch()), backend)

    assert (result.reward, len(attempts)) == (1.0, 2)


async def test_a_machine_that_keeps_failing_is_no_verdict(
    backend: SandboxBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentgym.verify.grading.BACKOFF_S", 0.01)

    async def broken(*_: object) -> object:
        raise StartError("the engine is gone")

    monkeypatch.setattr(backend, "start", broken)

    result = await grade(load_task(TUTORIAL), Patch(b""), backend)

    assert result.reward is None
    assert "the engine is gone" in str(result.error)
