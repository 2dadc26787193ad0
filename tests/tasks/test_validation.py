"""The gate lets a task through only when its reward can be trusted, and says why where it does not.

Real images, real sandboxes, the real grader; every case is the tutorial task with one thing broken.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import BackendUnavailable, StartError
from agentgym.tasks import ValidationReport, load_task, shipped_tasks
from agentgym.tasks.validation import disagreement, validate
from agentgym.verify import Grade

TUTORIAL = next(path for path in shipped_tasks() if path.name == "tutorial-duration")
FORMAT = "tests/hidden/tests/test_format.py"


@pytest.fixture
async def backend():
    try:
        opened = await open_backend("auto", owner="tests of validation")
    except BackendUnavailable as error:
        pytest.skip(f"no sandboxes here: {error}")
    yield opened
    await opened.close()


@pytest.fixture
def broken(tmp_path) -> Callable[..., Path]:
    """A copy of the tutorial with some files edited: `broken({path: edit})`."""

    def make(**edits: Callable[[str], str]) -> Path:
        root = tmp_path / "tutorial-duration"
        shutil.copytree(TUTORIAL, root)
        for name, edit in edits.items():
            path = {
                "manifest": "task.toml",
                "dockerfile": "environment/Dockerfile",
                "tests": FORMAT,
                "gold": "solution/gold.patch",
            }[name]
            (root / path).write_text(edit((root / path).read_text()))
        return root

    return make


async def test_a_sound_task_is_valid_and_its_sensitive_tests_are_named(backend, broken):
    sensitive = "tests/test_format.py::test_time_zone"
    code = "\n\ndef test_time_zone():\n    import time\n\n    assert time.timezone == 0\n"
    listed = f'pass_to_pass = ["{sensitive}",'
    root = broken(tests=lambda text: text + code, manifest=lambda text: text.replace("pass_to_pass = [", listed))
    stages: list[str] = []

    report = await validate(load_task(root), backend, repeats=2, on_stage=stages.append)

    assert (report.status, report.reason) == ("valid", "")
    assert report.gold_rewards == [1.0, 0.0]  # the second repeat is in another time zone
    assert report.empty_rewards == [0.0, 0.0]
    assert report.sensitive == [sensitive]
    assert report.environment_digest.startswith("sha256:")
    assert stages == ["image", "leaks", "gold", "empty"]


async def test_a_gold_patch_that_does_not_solve_is_rejected(backend, broken):
    task = load_task(
        broken(
            gold=lambda text: text.replace(
                "+    hours, rest = divmod(int(seconds), 3600)", "+    hours, rest = divmod(seconds, 60)"
            )
        )
    )

    report = await validate(task, backend, repeats=1)

    assert report.status == "rejected"
    assert "the gold patch does not pass" in report.reason


async def test_a_deciding_test_that_passes_anyway_is_rejected(backend, broken):
    passing = "tests/test_format.py::test_seconds[0-0:00]"
    task = load_task(
        broken(
            manifest=lambda text: text.replace(f'    "{passing}",\n', "").replace(
                "fail_to_pass = [", f'fail_to_pass = ["{passing}",'
            )
        )
    )

    report = await validate(task, backend, repeats=1)

    assert report.reason == f"without a solution 1 FAIL_TO_PASS tests pass: {passing}"


def graded(**verdicts: str) -> Grade:
    return Grade(reward=0.0, verdicts=verdicts)


@pytest.mark.parametrize(
    ("second", "third", "reason"),
    [
        ({}, {}, ""),
        ({"keeps": "failed"}, {}, ""),
        ({"decides": "failed"}, {}, "1 FAIL_TO_PASS tests depend on order, hash seed or time zone: decides"),
        ({}, {"keeps": "missing"}, "1 tests are flaky: keeps"),
        ({"keeps": "failed"}, {"keeps": "failed"}, "1 tests are flaky: keeps"),
    ],
)
def test_repeats_must_agree_under_equal_conditions(second, third, reason):
    task = replace(load_task(TUTORIAL), fail_to_pass=("decides",), pass_to_pass=("keeps",))
    usual = {"decides": "passed", "keeps": "passed"}
    solved = [graded(**usual), graded(**usual | second), graded(**usual | third)]
    report = ValidationReport(task_id="t", task_digest="d", environment_digest="e", backend="b", status="error")

    assert disagreement(task, solved, [], report) == reason


GOLD_LINE = "    hours, rest = divmod(int(seconds), 3600)"
TEST_LINES = [line for line in (TUTORIAL / FORMAT).read_text().splitlines() if "parametrize" in line]


@pytest.mark.parametrize(
    ("lines", "place", "leak"),
    [
        ([GOLD_LINE], "/usr/share/answer.txt", "gold: /usr/share/answer.txt"),
        (TEST_LINES, "/opt/copy.py", "tests: /opt/copy.py"),
    ],
)
async def test_an_image_that_gives_the_answer_away_is_rejected(backend, broken, lines, place, leak):
    command = f"RUN printf '%s\\n' {shlex.join(lines)} > {place}\n"
    task = load_task(broken(dockerfile=lambda text: text + command))

    report = await validate(task, backend, repeats=1)

    assert report.status == "rejected"
    assert any(found.startswith(leak) for found in report.leaks), report


async def test_an_image_that_does_not_build_is_rejected_with_the_log(backend, broken):
    task = load_task(broken(dockerfile=lambda text: text + "RUN echo no such luck && exit 7\n"))

    report = await validate(task, backend)

    assert report.status == "rejected"
    assert "no such luck" in report.reason


async def test_trouble_of_the_machine_is_no_verdict_on_the_task(backend, monkeypatch):
    async def start(*_: object) -> None:
        raise StartError("the engine went away")

    monkeypatch.setattr(backend, "start", start)

    report = await validate(load_task(TUTORIAL), backend)

    assert report.status == "error"
    assert "the engine went away" in report.reason
