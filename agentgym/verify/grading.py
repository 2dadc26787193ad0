"""Judge a patch: the trust boundary between an agent's work and its reward.

A patch is only ever data. It is applied on the host to the image's pristine tree, every test-owned change is dropped,
the hidden tests are laid over it (`agentgym.verify.prepare`), and the result is written into a sandbox that the agent
has never seen. What is believed there is the task's `judge`:

    tests    what our plugin signed while pytest ran (`pytest_run`)
    junit    a JUnit XML or TAP report of any command, written where only this run knows, and agreeing with its exit code
    tap      (`report_run`)
    script   the reward file of a Harbor task's tests/test.sh (`harbor`)
    log      the log, read by an imported benchmark's own package (`log_run`)

A verdict about the *solution* is a reward, also where the solution hangs, crashes or kills the test process. A
failure of the *verifier* (sandbox lost, whole-run limit hit without any failed test) is never a zero: it is retried
on a fresh sandbox with backoff and then reported as reward None.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from agentgym.sandbox.protocol import Image, Sandbox, SandboxBackend, SandboxError
from agentgym.tasks.model import Task
from agentgym.verify.grade import Grade, Patch
from agentgym.verify.harbor import grade_by_script
from agentgym.verify.log_run import grade_by_log
from agentgym.verify.measure import peak_memory_mb
from agentgym.verify.prepare import prepare
from agentgym.verify.pytest_run import grade_by_pytest
from agentgym.verify.report_run import grade_by_report
from agentgym.verify.reward import no_solution
from agentgym.verify.trees import PatchDoesNotApply

ATTEMPTS = 3
BACKOFF_S = 1.0


async def grade(
    task: Task,
    patch: Patch,
    backend: SandboxBackend,
    *,
    image: Image | None = None,
    order: int = 0,
    measure: bool = False,
) -> Grade:
    """Apply `patch` to a fresh sandbox of the task's image and judge it by the hidden tests.

    order: seed of the order in which pytest's tests run; 0 keeps their own. Other judges cannot vary it. measure: ask the sandbox
    for its peak memory.
    A sandbox that is lost or fails gives `reward=None`, not an exception; ImageError and TaskError propagate, since
    no retry mends them.
    """
    started = time.monotonic()
    image = image or await backend.ensure_image(task.image)
    outcome = Grade(reward=None, error="not attempted")
    for attempt in range(ATTEMPTS):
        if attempt:
            await asyncio.sleep(BACKOFF_S * 2 ** (attempt - 1))
        outcome = await _attempt(task, patch, backend, image, order, measure=measure, last=attempt == ATTEMPTS - 1)
        if outcome.error is None:
            break
    return replace(outcome, duration=time.monotonic() - started)


async def _attempt(
    task: Task, patch: Patch, backend: SandboxBackend, image: Image, order: int, *, measure: bool, last: bool
) -> Grade:
    try:
        sandbox = await backend.start(image, task.limits)
        try:
            outcome = await _grade_in(sandbox, task, patch, order, last=last)
            return replace(outcome, peak_memory_mb=await peak_memory_mb(sandbox)) if measure else outcome
        finally:
            await sandbox.close()
    except (SandboxError, TimeoutError) as error:
        if isinstance(error, SandboxError) and not error.retry_safe:
            raise
        return Grade(reward=None, error=f"{type(error).__name__}: {error}")


async def _grade_in(sandbox: Sandbox, task: Task, patch: Patch, order: int, *, last: bool) -> Grade:
    if patch.truncated:
        return no_solution(task, "the patch was over its size cap, or the workspace could not be read")
    try:
        workspace = await prepare(sandbox, task, patch)
    except PatchDoesNotApply as error:
        return no_solution(task, f"the patch does not apply: {error}")
    match task.judge:
        case "script":
            return await grade_by_script(sandbox, task, workspace)
        case "junit" | "tap":
            return await grade_by_report(sandbox, task, workspace)
        case "log":
            return await grade_by_log(sandbox, task, workspace)
        case _:
            return await grade_by_pytest(sandbox, task, workspace, order=order, last=last)
