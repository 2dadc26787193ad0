"""Re-execution: the recorded actions, run again in a fresh sandbox, observation by observation.

Only valid steps are run: an invalid call changed nothing when it was made. Every step is compared in two ways, byte for
byte and after `normalise`; the workspace's tree hash, where it was recorded, says whether the files agree even where
the words do not. The replay goes on after a difference, so that the report tells a clock in a log line from a run that
went elsewhere.
"""

from __future__ import annotations

import contextlib
import difflib
import time
from collections.abc import Mapping
from dataclasses import dataclass

from agentgym.errors import InputError
from agentgym.sandbox.protocol import SandboxBackend, SandboxError
from agentgym.store import Store, Trajectory
from agentgym.store.records import Step
from agentgym.tasks.model import Task
from agentgym.verify import extract_patch, grade
from agentgym.verify.grade import Grade, Patch
from harness.profile import Profile
from harness.replay.normalise import normalise
from harness.tools import Observation, Tool, ToolContext
from harness.workspace_tree import workspace_tree


@dataclass(frozen=True, slots=True)
class StepComparison:
    """One step, then and now. same_bytes implies identical; identical: after normalising, and with an equal exit code.

    same_tree: None where either tree hash is unknown. executed: False for an invalid call, which there is nothing to
    run for. diff: unified, of the normalised observations; "" where identical.
    """

    index: int
    tool: str
    executed: bool
    same_bytes: bool
    identical: bool
    same_tree: bool | None
    diff: str = ""


@dataclass(frozen=True, slots=True)
class ReexecuteReport:
    """What a replay found. grade: of the replayed workspace, where asked for. seconds: wall time."""

    trajectory_id: str
    steps: tuple[StepComparison, ...]
    recorded_reward: float | None
    grade: Grade | None
    seconds: float

    @property
    def identical(self) -> int:
        """How many steps came back the same."""
        return sum(step.identical for step in self.steps)

    @property
    def first_divergence(self) -> StepComparison | None:
        return next((step for step in self.steps if not step.identical), None)

    @property
    def same_reward(self) -> bool | None:
        """None where there is nothing to compare."""
        if self.grade is None or self.grade.reward is None or self.recorded_reward is None:
            return None
        return self.grade.reward == self.recorded_reward


def profile_of(trajectory: Trajectory, store: Store) -> Profile:
    """The harness profile a trajectory was made under, from the store's documents. Raises NotFoundError."""
    return Profile.model_validate(store.get_document(trajectory.harness_digest)["profile"])


async def reexecute(
    trajectory: Trajectory, task: Task, backend: SandboxBackend, *, profile: Profile, regrade: bool = False
) -> ReexecuteReport:
    """Run the trajectory's actions in a fresh sandbox of its task and compare.

    regrade: also grade the workspace they lead to. Raises InputError where `task` is not the one recorded, and
    SandboxError where there is no sandbox to run in.
    """
    require_same_task(trajectory, task)
    started = time.monotonic()
    image = await backend.ensure_image(task.image)
    sandbox = await backend.start(image, task.limits)
    try:
        seen = profile.observation
        tools = ToolContext(sandbox, task.workdir, seen.max_chars, seen.timeout_s, finish_marker=seen.finish_marker)
        steps = [
            await compare_step(index, step, tools, profile.tool_set) for index, step in enumerate(trajectory.steps)
        ]
        patch = await extract_patch(sandbox, task, backend=backend) if regrade else None
    finally:
        with contextlib.suppress(SandboxError):  # the reaper finds by its labels what could not be removed
            await sandbox.close()
    verdict = await grade(task, patch, backend, image=image) if patch is not None else None
    return ReexecuteReport(trajectory.id, tuple(steps), trajectory.reward, verdict, time.monotonic() - started)


async def regrade(trajectory: Trajectory, task: Task, backend: SandboxBackend) -> Grade:
    """Grade the recorded patch again, without running the actions. Raises InputError for another version of the task."""
    require_same_task(trajectory, task)
    image = await backend.ensure_image(task.image)
    patch = Patch(trajectory.patch.encode("utf-8", errors="surrogateescape"))
    return await grade(task, patch, backend, image=image)


def require_same_task(trajectory: Trajectory, task: Task) -> None:
    """Raises InputError where `task` is not the one the trajectory was made on."""
    if task.digest != trajectory.task_digest:
        raise InputError(
            f"trajectory {trajectory.id[:8]} was made on task {trajectory.task_id} at {trajectory.task_digest[:19]}, "
            f"and {task.id} is now {task.digest[:19]}",
            hint="replay needs the task as it was: check out that version of its directory",
        )


async def compare_step(index: int, step: Step, tools: ToolContext, known: Mapping[str, Tool]) -> StepComparison:
    if not step.valid:
        return StepComparison(index, step.tool, executed=False, same_bytes=True, identical=True, same_tree=None)
    if step.tool not in known:
        raise InputError(f"step {index} used the tool {step.tool!r}, which the profile does not have")
    now = await known[step.tool].run(tools, step.arguments)
    tree = await workspace_tree(tools.sandbox, tools.workdir) if step.tree_hash else None
    same_bytes = now.text == step.observation
    before, after = normalise(step.observation), normalise(now.text)
    identical = before == after and now.exit_code == step.exit_code
    return StepComparison(
        index,
        step.tool,
        executed=True,
        same_bytes=same_bytes,
        identical=identical,
        same_tree=tree == step.tree_hash if tree else None,
        diff="" if identical else _diff(before, after, step, now),
    )


def _diff(before: str, after: str, step: Step, now: Observation) -> str:
    lines = list(
        difflib.unified_diff(before.splitlines(), after.splitlines(), "recorded", "replayed", lineterm="", n=2)
    )
    if step.exit_code != now.exit_code:
        lines.insert(0, f"exit code: recorded {step.exit_code}, replayed {now.exit_code}")
    return "\n".join(lines)
