"""Given a patch, when it is graded, then the hidden tests decide, and only they."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym.sandbox.protocol import Image, SandboxBackend
from agentgym.tasks import Task
from agentgym.verify import Patch, grade

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_gold_patch_is_rewarded(tutorial: Task, backend: SandboxBackend, image: Image) -> None:
    result = await grade(tutorial, Patch(tutorial.material.gold_patch()), backend, image=image)

    assert result.reward == 1.0, result
    assert set(result.verdicts) == {*tutorial.fail_to_pass, *tutorial.pass_to_pass}
    assert result.vector == {"fail_to_pass": 1.0, "pass_to_pass": 1.0}
    assert result.error is None
    assert result.notes == ()


async def test_the_empty_patch_is_not(tutorial: Task, backend: SandboxBackend, image: Image) -> None:
    result = await grade(tutorial, Patch(b""), backend, image=image)

    assert result.reward == 0.0
    assert {result.verdicts[test] for test in tutorial.fail_to_pass} == {"failed"}
    assert {result.verdicts[test] for test in tutorial.pass_to_pass} == {"passed"}
    assert result.vector == {"fail_to_pass": 0.0, "pass_to_pass": 1.0}
    assert "assert" in result.log


async def test_a_test_that_is_never_reported_is_missing_and_fails(
    tutorial: Task, backend: SandboxBackend, image: Image
) -> None:
    task = replace(tutorial, fail_to_pass=(*tutorial.fail_to_pass, "tests/test_format.py::test_that_is_not_there"))

    result = await grade(task, Patch(tutorial.material.gold_patch()), backend, image=image)

    assert result.reward == 0.0
    assert result.verdicts["tests/test_format.py::test_that_is_not_there"] == "missing"


async def test_a_patch_that_does_not_apply_is_no_solution(
    tutorial: Task, backend: SandboxBackend, image: Image
) -> None:
    result = await grade(
        tutorial, Patch(b"--- a/nowhere.py\n+++ b/nowhere.py\n@@ -1 +1 @@\n-a\n+b\n"), backend, image=image
    )

    assert result.reward == 0.0
    assert "does not apply" in result.log
