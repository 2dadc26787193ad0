"""When an episode solved its task, and when it broke it again: the hidden tests, run on every state it went through.

A trajectory's reward judges its last state only. Here its actions are run again in a fresh sandbox, and each workspace state
that has not been seen yet (by git tree) is graded like a submission. "Solved at step 7, broken at step 19" is a diagnosis for
people and for credit assignment; it never changes a stored reward.

`marked` wraps what runs an episode: a failed one gets the answer into its metadata (`solved_at`, `broken_at`) before it is
stored, where the trainer reads it (credit `first-error` with signal `broken`).
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, replace
from typing import Any

from agentgym.sandbox.protocol import SandboxBackend, SandboxError
from agentgym.store.records import Trajectory
from agentgym.tasks.model import Task
from agentgym.verify import extract_patch, grade
from harness.engine import Runner
from harness.profile import Profile
from harness.tools import ToolContext

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class State:
    """The workspace after one executed step. reward: what a submission of it would have got, None where grading failed."""

    step: int
    tree_hash: str | None
    reward: float | None


@dataclass(frozen=True, slots=True)
class Progress:
    """The states of one trajectory in order, one per executed step."""

    trajectory_id: str
    states: tuple[State, ...]

    @property
    def solved_at(self) -> int | None:
        """The first step whose state passes."""
        return next((state.step for state in self.states if state.reward == 1.0), None)

    @property
    def broken_at(self) -> int | None:
        """The first step after `solved_at` whose state fails, where the last state fails too."""
        solved = self.solved_at
        if solved is None or self.states[-1].reward == 1.0:
            return None
        return next(state.step for state in self.states if state.step > solved and state.reward != 1.0)


async def progress(trajectory: Trajectory, task: Task, backend: SandboxBackend, *, profile: Profile) -> Progress:
    """Replay and grade each new state; raises SandboxError where the sandbox fails."""
    image = await backend.ensure_image(task.image)
    sandbox = await backend.start(image, task.limits)
    seen = profile.observation
    tools = ToolContext(sandbox, task.workdir, seen.max_chars, seen.timeout_s, finish_marker=seen.finish_marker)
    rewards: dict[bytes, float | None] = {}
    states: list[State] = []
    try:
        for index, step in enumerate(trajectory.steps):
            if not step.valid or step.tool not in profile.tool_set:
                continue
            await profile.tool_set[step.tool].run(tools, step.arguments)
            patch = await extract_patch(sandbox, task, backend=backend)
            if patch.diff not in rewards:
                rewards[patch.diff] = (await grade(task, patch, backend, image=image)).reward
            states.append(State(index, patch.tree_hash, rewards[patch.diff]))
    finally:
        with contextlib.suppress(SandboxError):  # the reaper finds by its labels what could not be removed
            await sandbox.close()
    return Progress(trajectory.id, tuple(states))


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
