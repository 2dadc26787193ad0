"""A task with the limits that its validation measured, instead of those that its author guessed.

Memory: most manifests say 2 GiB and most test suites need a fortieth of it, and memory is what an engine is full of first. The
measured limit takes the place of a larger one, but never goes below `FLOOR_MB`, since an agent does more in its sandbox
than a grading. Agent and grading get the same, so that both take from the same shelf of warm sandboxes.

Time: only a longer limit is taken over, on machines that are slower than the author's. A shorter one would gain nothing (a test
that hangs has its own limit, far below) and would call a solution hanging where the machine is busy.
"""

from __future__ import annotations

from dataclasses import replace

from agentgym.tasks.model import Task
from agentgym.tasks.report import ValidationReport

FLOOR_MB = 512


def with_measured_limits(task: Task, report: ValidationReport | None) -> Task:
    """`task` as its last validation found that it should be limited; unchanged where that says nothing of it."""
    if report is None or report.status != "valid" or report.task_digest != task.digest:
        return task
    found = report.measured
    memory_mb = min(task.limits.memory_mb, max(FLOOR_MB, found.memory_mb or task.limits.memory_mb))
    return replace(
        task,
        limits=replace(task.limits, memory_mb=memory_mb),
        verifier_timeout_s=max(task.verifier_timeout_s, found.verifier_timeout_s),
    )
