"""When an episode solved its task, and when it broke it again: the hidden tests, run on every state it went through.

A trajectory's reward judges its last state only. Here its actions are run again in a fresh sandbox, and each workspace state
that has not been seen yet (by what it differs from the start in) is graded like a submission. "Solved at step 7, broken at
step 19" is a diagnosis for people and for credit assignment; it never changes a stored reward.

`marked` wraps what runs an episode: a failed one gets the answer into its metadata (`solved_at`, `broken_at`) before it is
stored, where the trainer reads it (credit `first-error` with signal `broken`).
"""

from __future__ import annotations

import contextlib
import logging
import shlex
from dataclasses import replace
from typing import Any

from agentgym.sandbox.protocol import Sandbox, SandboxBackend, SandboxError
from agentgym.store.records import Trajectory
from agentgym.store.states import WorkspaceState, WorkspaceStates
from agentgym.tasks.model import Task
from agentgym.verify import extract_patch, grade
from harness.engine import Runner
from harness.profile import Profile
from harness.tools import ToolContext
from harness.workspace_tree import workspace_tree

DIFF_BYTES = 100_000
"""Of one step's changes; what is longer loses its middle, and says so."""

_log = logging.getLogger(__name__)


async def progress(trajectory: Trajectory, task: Task, backend: SandboxBackend, *, profile: Profile) -> WorkspaceStates:
    """Replay and grade each new state; raises SandboxError where the sandbox fails."""
    image = await backend.ensure_image(task.image)
    sandbox = await backend.start(image, task.limits)
    seen = profile.observation
    tools = ToolContext(sandbox, task.workdir, seen.max_chars, seen.timeout_s, finish_marker=seen.finish_marker)
    rewards: dict[bytes, float | None] = {}
    states: list[WorkspaceState] = []
    try:
        before = await workspace_tree(sandbox, task.workdir)
        for index, step in enumerate(trajectory.steps):
            if not step.valid or step.tool not in profile.tool_set:
                continue
            await profile.tool_set[step.tool].run(tools, step.arguments)
            tree = await workspace_tree(sandbox, task.workdir)
            patch = await extract_patch(sandbox, task, backend=backend)
            if patch.diff not in rewards:
                rewards[patch.diff] = (await grade(task, patch, backend, image=image)).reward
            diff = await _between(sandbox, task.workdir, before, tree)
            states.append(WorkspaceState(index, tree, diff, rewards[patch.diff]))
            before = tree
    finally:
        with contextlib.suppress(SandboxError):  # the reaper finds by its labels what could not be removed
            await sandbox.close()
    return WorkspaceStates(trajectory.id, tuple(states))


def marked(episode: Runner) -> Runner:
    """The same episodes; those that failed are looked at again (a replay, and a grade for each new state)."""

    async def run(task: Task, **given: Any) -> Trajectory:
        trajectory = await episode(task, **given)
        if trajectory.reward is None or trajectory.reward >= 1.0 or not trajectory.steps:
            return trajectory
        try:
            found = await progress(trajectory, task, given["backend"], profile=given["profile"])
        except SandboxError as error:  # the episode is whole without its diagnosis
            _log.warning("task %s: no sandbox to find out when it was solved: %s", task.id, error)
            return trajectory
        marks = {"solved_at": found.solved_at, "broken_at": found.broken_at}
        known = {name: step for name, step in marks.items() if step is not None}
        return replace(trajectory, metadata={**trajectory.metadata, **known})

    return run


async def _between(sandbox: Sandbox, workdir: str, before: str | None, after: str | None) -> str:
    """What changed from one tree to the next; both are objects of the sandbox's repository since they were hashed."""
    if before is None or after is None or before == after:
        return ""
    command = f"cd {shlex.quote(workdir)} && git -c safe.directory='*' diff --no-color --no-ext-diff {before} {after}"
    result = await sandbox.exec(command, timeout=30.0, output_limit=DIFF_BYTES)
    return result.text if result.exit_code == 0 else ""
