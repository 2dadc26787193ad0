"""When an episode solved its task, and when it broke it again: the hidden tests, run on every state it went through.

A trajectory's reward judges its last state only. Here its actions are run again in a fresh sandbox, and each workspace state
that has not been seen yet (by git tree) is graded like a submission. "Solved at step 7, broken at step 19" is a diagnosis for
people and for credit assignment; it never changes a stored reward.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from agentgym.sandbox.protocol import SandboxBackend, SandboxError
from agentgym.store.records import Trajectory
from agentgym.tasks.model import Task
from agentgym.verify import extract_patch, grade
from harness.profile import Profile
from harness.tools import ToolContext


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
