"""Given a patch, when it is graded, then the hidden tests decide, and only they."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym.sandbox.protocol import Image, SandboxBackend
from agentgym.tasks import Task
from agentgym.verify import Patch, grade
from agentgym.verify.pytest_run import judge

in_session = pytest.mark.asyncio(loop_scope="session")


@in_session
async def test_the_gold_patch_is_rewarded(tutorial: Task, backend: SandboxBackend, image: Image) -> None:
    result = await grade(tutorial, Patch(tutorial.material.gold_patch()), backend, image=image)

    assert result.reward == 1.0, result
    assert set(result.verdicts) == {*tutorial.fail_to_pass, *tutorial.pass_to_pass}
    assert result.vector == {"fail_to_pass": 1.0, "pass_to_pass": 1.0}
    assert result.error is None
    assert result.notes == ()


@in_session
async def test_the_empty_patch_is_not(tutorial: Task, backend: SandboxBackend, image: Image) -> None:
    result = await grade(tutorial, Patch(b""), backend, image=image)

    assert result.reward == 0.0
    assert {result.verdicts[test] for test in tutorial.fail_to_pass} == {"failed"}
    assert {result.verdicts[test] for test in tutorial.pass_to_pass} == {"passed"}
    assert result.vector == {"fail_to_pass": 0.0, "pass_to_pass": 1.0}
    assert "assert" in result.log


@in_session
async def test_a_test_that_is_never_reported_is_missing_and_fails(
    tutorial: Task, backend: SandboxBackend, image: Image
) -> None:
    task = replace(tutorial, fail_to_pass=(*tutorial.fail_to_pass, "tests/test_format.py::test_that_is_not_there"))

    result = await grade(task, Patch(tutorial.material.gold_patch()), backend, image=image)

    assert result.reward == 0.0
    assert result.verdicts["tests/test_format.py::test_that_is_not_there"] == "missing"


@in_session
async def test_a_patch_that_does_not_apply_is_no_solution(
    tutorial: Task, backend: SandboxBackend, image: Image
) -> None:
    result = await grade(
        tutorial, Patch(b"--- a/nowhere.py\n+++ b/nowhere.py\n@@ -1 +1 @@\n-a\n+b\n"), backend, image=image
    )

    assert result.reward == 0.0
    assert "does not apply" in result.log


@in_session
async def test_groups_are_elements_of_the_vector_and_the_fraction_is_off_by_default(
    tutorial: Task, backend: SandboxBackend, image: Image
) -> None:
    task = replace(tutorial, groups={"minutes": tutorial.fail_to_pass[:2], "laps": tutorial.pass_to_pass[-3:]})

    usual = await grade(task, Patch(b""), backend, image=image)
    dense = await grade(replace(task, reward="fraction"), Patch(b""), backend, image=image)

    assert usual.reward == 0.0
    assert usual.vector == {"fail_to_pass": 0.0, "pass_to_pass": 1.0, "minutes": 0.0, "laps": 1.0}
    assert dense.reward == len(task.pass_to_pass) / len(task.fail_to_pass + task.pass_to_pass)
    assert usual.judge == "plugin"


def run(**changes: object) -> dict[str, object]:
    events = [{"event": "open", "tampering": []}]
    return {"events": events, "forged": 0, "running": None, "killed": None, "code": 137, "log": "", **changes}


def test_running_out_of_memory_is_no_verdict_unless_a_test_had_failed(tutorial: Task) -> None:
    died = judge(tutorial, {"runs": [run(running=tutorial.fail_to_pass[0])]}, oom_killed=True)
    crashed = judge(tutorial, {"runs": [run(running=tutorial.fail_to_pass[0])]})
    failed = [{"event": "open", "tampering": []},
              {"event": "end", "id": tutorial.fail_to_pass[0], "verdict": "failed", "tampering": []}]  # fmt: skip

    assert died.reward is None
    assert "memory limit" in str(died.error)
    assert crashed.reward == 0.0
    assert judge(tutorial, {"runs": [run(events=failed, running="x")]}, oom_killed=True).reward == 0.0


def test_a_whole_run_that_takes_too_long_is_no_verdict(tutorial: Task) -> None:
    result = judge(tutorial, {"runs": [run(killed="budget", running=tutorial.fail_to_pass[0])]})

    assert result.reward is None
    assert "did not end within" in str(result.error)


def test_a_pytest_that_does_not_start_is_no_verdict(tutorial: Task) -> None:
    assert judge(tutorial, {"runs": [run(events=[])]}).reward is None
