"""The gate between "somebody wrote a task" and "its reward can be trusted".

A task is `valid` on a backend when, on its built image: nothing gives the answer away (`leaks`); the gold patch
passes every FAIL_TO_PASS and PASS_TO_PASS test; no patch at all fails every FAIL_TO_PASS and passes every
PASS_TO_PASS; and repeats agree. Every second repeat changes what grading pins (the tests' order, hash seed, time zone),
so that a test which depends on it is known; tests that disagree under equal conditions are flaky and reject the task.
Wall time and peak memory of every grading are measured, and the limits that follow are recorded with the verdict.
Trouble of the machine is `error`, never a verdict on the task.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from agentgym.errors import AgentGymError
from agentgym.sandbox.protocol import Image, ImageError, SandboxBackend, SandboxError
from agentgym.tasks.leaks import find_leaks
from agentgym.tasks.model import Task, TaskError
from agentgym.tasks.report import Measured, ValidationReport
from agentgym.tasks.sources import ScriptMaterial
from agentgym.verify import Grade, Patch, extract_patch, grade


@dataclass(frozen=True, slots=True)
class Conditions:
    """What one repeat changes: environment over the task's own, and the seed of the tests' order (0: their own order)."""

    env: Mapping[str, str] = field(default_factory=dict)
    order: int = 0


USUAL = Conditions()
VARIATIONS = (
    USUAL,
    Conditions({"PYTHONHASHSEED": "1", "TZ": "America/St_Johns"}, order=1),
    USUAL,
    Conditions({"PYTHONHASHSEED": "4242", "TZ": "Asia/Kathmandu"}, order=2),
)
"""Conditions of repeat i (modulo their number)."""


async def validate(
    task: Task, backend: SandboxBackend, *, repeats: int = 3, on_stage: Callable[[str], None] = lambda stage: None
) -> ValidationReport:
    """Validate one task; `on_stage` hears each stage as it begins. Raises nothing that is the task's fault."""
    started = time.monotonic()
    report = ValidationReport(
        task_id=task.id,
        task_digest=task.digest,
        environment_digest=task.image.digest,
        backend=backend.name,
        status="error",
        repeats=repeats,
        fail_to_pass=len(task.fail_to_pass),
        pass_to_pass=len(task.pass_to_pass),
    )
    try:
        reason = await _validate(task, backend, repeats, report, on_stage)
        report.status = "rejected" if reason else "valid"
        report.reason = reason
    except ImageError as error:
        report.status, report.reason = "rejected", f"the image does not build: {error}"
    except _Environment as error:
        report.reason = str(error)
    except SandboxError as error:
        report.reason = f"{type(error).__name__}: {error}"
    except TaskError as error:
        report.status, report.reason = "rejected", str(error)
    except AgentGymError as error:
        report.reason = f"the task's material cannot be had: {error}"
    report.seconds = round(time.monotonic() - started, 3)
    return report


class _Environment(Exception):
    """The grader gave no verdict."""


async def _validate(
    task: Task, backend: SandboxBackend, repeats: int, report: ValidationReport, on_stage: Callable[[str], None]
) -> str:
    """Why the task is rejected; "" where it is valid. Fills the report's measurements on the way."""
    clock = time.monotonic()
    on_stage("image")
    image = await _image(task, backend)
    report.environment_digest = image.digest
    report.times.build = round(time.monotonic() - clock, 3)

    on_stage("leaks")
    clock = time.monotonic()
    sandbox = await backend.start(image, task.limits)
    try:
        report.leaks = await find_leaks(sandbox, task)
    finally:
        await sandbox.close()
    report.times.leaks = round(time.monotonic() - clock, 3)
    if report.leaks:
        return f"the image gives the answer away: {_some(report.leaks)}"

    on_stage("gold")
    gold = await _gold(task, backend, image)
    solved = [await _grade(task, gold, backend, image, index) for index in range(repeats)]
    report.gold_rewards = [one.reward for one in solved]
    report.judge = solved[0].judge
    report.measured = Measured.of(solved)
    report.times.gold = [round(one.duration, 3) for one in solved]
    expected = (*task.fail_to_pass, *task.pass_to_pass)
    if not expected and solved[0].reward != 1.0:
        return f"the solution is not rewarded by tests/test.sh: {solved[0].log[-500:].strip()}"
    bad = [test for test in expected if solved[0].verdicts.get(test) != "passed"]
    if bad:
        return f"the gold patch does not pass {len(bad)} of {len(expected)} tests: {_some(bad)}"

    on_stage("empty")
    unsolved = [await _grade(task, Patch(diff=b""), backend, image, index) for index in range(repeats)]
    report.empty_rewards = [one.reward for one in unsolved]
    report.measured = Measured.of([*solved, *unsolved])
    report.times.empty = [round(one.duration, 3) for one in unsolved]
    if not expected and unsolved[0].reward != 0.0:
        return "tests/test.sh rewards no solution at all"
    bad = [test for test in task.fail_to_pass if unsolved[0].verdicts.get(test) == "passed"]
    if bad:
        return f"without a solution {len(bad)} FAIL_TO_PASS tests pass: {_some(bad)}"
    bad = [test for test in task.pass_to_pass if unsolved[0].verdicts.get(test) != "passed"]
    if bad:
        return f"without a solution {len(bad)} PASS_TO_PASS tests do not pass: {_some(bad)}"
    return disagreement(task, solved, unsolved, report)


async def _gold(task: Task, backend: SandboxBackend, image: Image) -> Patch:
    """The reference solution: its diff, or what `solution/solve.sh` of a plain Harbor task leaves in the workdir."""
    if not isinstance(task.material, ScriptMaterial):
        return Patch(diff=task.material.gold_patch())
    if not (task.root / "solution/solve.sh").is_file():
        raise TaskError(f"{task.id}: there is no solution/solve.sh to validate with")
    sandbox = await backend.start(image, task.limits)
    try:
        await sandbox.upload(task.root / "solution", "/solution")
        done = await sandbox.exec("bash /solution/solve.sh", cwd=task.workdir, timeout=task.agent_timeout_s)
        if done.exit_code != 0:
            raise TaskError(f"{task.id}: solution/solve.sh fails with exit code {done.exit_code}: {done.text[-500:]}")
        return await extract_patch(sandbox, task, backend=backend)
    finally:
        await sandbox.close()


async def _image(task: Task, backend: SandboxBackend) -> Image:
    """Build it, twice if need be: a failed download is not the task's fault, a Dockerfile that fails again is."""
    try:
        return await backend.ensure_image(task.image)
    except ImageError:
        return await backend.ensure_image(task.image)


def disagreement(task: Task, solved: list[Grade], unsolved: list[Grade], report: ValidationReport) -> str:
    """Why repeats of the gold and of the empty run do not agree; "" where they do. Notes the tests in the report."""
    if any(len({one.reward for one in grades}) > 1 for grades in (solved, unsolved)) and not task.fail_to_pass:
        return "tests/test.sh does not agree with itself"
    flaky, sensitive = set[str](), set[str]()
    for grades in filter(None, (solved, unsolved)):
        for index, one in enumerate(grades[1:], start=1):
            changed = {
                test for test, verdict in one.verdicts.items() if (verdict == "passed") != _passed(grades[0], test)
            }
            (flaky if _conditions(index) == USUAL else sensitive).update(changed)
    report.flaky = sorted(flaky)
    report.sensitive = sorted(sensitive - flaky)
    if flaky:
        return f"{len(flaky)} tests are flaky: {_some(report.flaky)}"
    deciding = sorted(sensitive & set(task.fail_to_pass))
    if deciding:
        return f"{len(deciding)} FAIL_TO_PASS tests depend on order, hash seed or time zone: {_some(deciding)}"
    return ""


def _passed(grade: Grade, test: str) -> bool:
    return grade.verdicts.get(test) == "passed"


async def _grade(task: Task, patch: Patch, backend: SandboxBackend, image: Image, index: int) -> Grade:
    conditions = _conditions(index)
    varied = replace(task, test_env={**task.test_env, **conditions.env})
    result = await grade(varied, patch, backend, image=image, order=conditions.order, measure=True)
    if result.reward is None:
        raise _Environment(f"the verifier gave no verdict: {result.error}")
    return result


def _conditions(index: int) -> Conditions:
    return VARIATIONS[index % len(VARIATIONS)]


def _some(items: list[str], shown: int = 3) -> str:
    more = f" and {len(items) - shown} more" if len(items) > shown else ""
    return ", ".join(items[:shown]) + more
