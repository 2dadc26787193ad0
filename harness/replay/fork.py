"""Prefix replay: a recorded trajectory up to a step, and from there a policy's own.

The steps before are run again in the first child's sandbox, which therefore has their files, their shell and their background
jobs; where one does not come back as it was recorded, there is no such state to go on from, and nothing is stored. Where a
snapshot can hold that state the other children start from one (`harness.replay.checkpoint`), else they do the same. The
child's first prompt is the parent's exact token ids at that step. The child records only what is its own: its calls, its
steps, the whole workspace's patch and verdict. So a loss over it is a loss over the suffix, with the prefix as context, and
no token of the parent is trained twice. `parent_id` and `branch_step` say where it hangs.

Children of one branch point share a group: they answer the same prompt.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from agentgym.errors import AgentGymError, InputError
from agentgym.sandbox.protocol import Image, SandboxBackend
from agentgym.store import Trajectory
from agentgym.store.records import Int32Array, Step, Termination, first_call_at
from agentgym.tasks.model import Task
from agentgym.together import together
from harness.budget import Budget
from harness.context import Context
from harness.episode import run_episode
from harness.policies.protocol import Policy
from harness.profile import Profile
from harness.render import GuardedRenderer
from harness.replay.checkpoint import Checkpoint
from harness.replay.foreign import FOREIGN
from harness.replay.reexecute import compare_step, require_same_task
from harness.replay.turns import Playback
from harness.stopping import Watch
from harness.tools import ToolContext


class ReplayDiverged(AgentGymError):
    """A step before the branch did not come back as recorded, so its state cannot be gone on from."""


@dataclass(frozen=True, slots=True)
class RecordedPrefix:
    """The first `branch_step` steps of `parent`, and all that came before them; see `harness.recorder.Prefix`.

    joined: the parent behind what it inherited itself (`harness.replay.lineage.whole`); the parent where it inherited
    nothing. checkpoint: shared by all children. Raises InputError for a step that the parent has not.
    """

    parent: Trajectory
    branch_step: int
    profile: Profile
    joined: Trajectory
    checkpoint: Checkpoint = field(default_factory=Checkpoint)

    def __post_init__(self) -> None:
        steps, ended = len(self.parent.steps), self.parent.termination
        if not 0 <= self.branch_step <= steps:
            raise InputError(f"trajectory {self.parent_id[:8]} has {steps} steps: branch at 0 to {steps}")
        if self.branch_step == steps and ended in (Termination.SUBMITTED, Termination.TESTS_PASSED):
            raise InputError(
                f"trajectory {self.parent_id[:8]} ended with its last step ({ended.value}): nothing goes on behind it",
                hint=f"branch at 0 to {steps - 1}",
            )

    @property
    def parent_id(self) -> str:
        return self.parent.id

    @property
    def image(self) -> Image | None:
        return self.checkpoint.image

    @property
    def inherited(self) -> int:
        """Steps before the parent's own."""
        return len(self.joined.steps) - len(self.parent.steps)

    @property
    def first_call(self) -> int:
        """Which call of `joined` the child's first one stands in the place of."""
        return first_call_at(self.joined, self.inherited + self.branch_step)

    @property
    def prompt(self) -> Int32Array | None:
        """The exact prompt at the branch; None behind the last call, where it has to be rendered."""
        calls = self.joined.calls
        return calls[self.first_call].prompt_token_ids if self.first_call < len(calls) else None

    async def restore(self, context: Context, budget: Budget, watch: Watch, tools: ToolContext) -> None:
        """Bring a fresh episode to the branch. Raises ReplayDiverged, and SandboxError."""
        steps = self.joined.steps[: self.inherited + self.branch_step]
        if self.checkpoint.holds(tools.sandbox):
            await self.checkpoint.thaw(tools)
        else:
            await self._run_again(steps, tools)
            await self.checkpoint.freeze(tools)
        for step in steps:
            watch.see(step)
        playback = Playback(self.joined, self.profile, context)
        for index, call in enumerate(self.joined.calls[: self.first_call]):
            budget.spend(len(call.generation_token_ids))
            if not playback.advance(index):
                raise InputError(f"trajectory {self.parent_id[:8]}: call {index} has no step to go on from")
        if (prompt := self.prompt) is not None:
            context.resume(prompt)
        budget.started = time.monotonic()  # the time that running the prefix again took is not the policy's
        tools.deadline = budget.deadline

    async def _run_again(self, steps: Sequence[Step], tools: ToolContext) -> None:
        for index, step in enumerate(steps):
            found = await compare_step(index, step, tools, self.profile.tool_set)
            if not found.identical:
                raise ReplayDiverged(
                    f"trajectory {self.parent_id[:8]}: step {index} ({step.tool}) came back different, so there is no "
                    f"state to go on from:\n{found.diff}",
                    hint="branch before that step",
                )


async def fork(
    parent: Trajectory,
    task: Task,
    *,
    step: int,
    joined: Trajectory | None = None,
    policy: Policy,
    renderer: GuardedRenderer,
    profile: Profile,
    backend: SandboxBackend,
    rollouts: int = 1,
    seed: int | None = 0,
    run_id: str = "",
    concurrency: int = 4,
    on_done: Callable[[Trajectory], object] = lambda trajectory: None,
) -> list[Trajectory]:
    """Roll the rest of `parent` from `step` on again, `rollouts` times. `on_done` is called with each child as it ends.

    step: how many of the parent's own steps are kept. joined: `whole(parent, store)`, for a parent that is a child itself.

    Raises InputError where the task is not the one recorded, the step does not exist or another harness acted, ReplayDiverged,
    SandboxError.
    """
    require_same_task(parent, task)
    if FOREIGN in parent.metadata:
        raise InputError(
            f"trajectory {parent.id[:8]} is another harness's, through the gateway: that program decided what to ask next, and "
            "no record holds its state, so nothing can go on from a step of it",
            hint="--reexecute, --regrade, --rescore and --rerender can be done for it",
        )
    prefix = RecordedPrefix(parent, step, profile, joined or parent)
    image = await backend.ensure_image(task.image)
    free = asyncio.Semaphore(concurrency)
    if rollouts == 1 or not prefix.first_call:
        prefix.checkpoint.settle()  # nobody to share with, or nothing to share

    async def one(number: int) -> Trajectory:
        if number:
            await prefix.checkpoint.settled()
        async with free:
            try:
                return await child(number)
            finally:
                prefix.checkpoint.settle()

    async def child(number: int) -> Trajectory:
        ended = await run_episode(
            task,
            policy=policy,
            renderer=renderer,
            profile=profile,
            backend=backend,
            image=image,
            seed=None if seed is None else int(np.random.SeedSequence([seed, step, number]).generate_state(1)[0]),
            run_id=run_id,
            group_id=f"{parent.id}@{step}",
            prefix=prefix,
        )
        on_done(ended)
        return ended

    return await together(map(one, range(rollouts)))
