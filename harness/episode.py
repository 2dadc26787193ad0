"""One episode: start a sandbox, let a policy act in it, take its patch, grade the patch, and return what happened.

    start -> ( generate -> parse -> execute -> observe )* -> extract patch -> grade -> Trajectory

The same code runs every policy; only what `generate` does differs. How an episode can end, and where:

    the policy           submitted, repeated_actions, invalid_actions                    the loop; graded
    the hidden tests     tests_passed                                                    the loop, if the profile asks; graded
    a budget             max_steps, max_tokens, context_exhausted, time_limit            before a call, or in it; graded
    the sandbox, grader  environment_failure                                             reward None
    the policy's server  policy_failure: no usable answer, or none before the time ran out   reward None
    the user             cancelled                                                       handed to `on_cancel`; reward None

A sandbox that fails before anything has happened in it is replaced; later the episode is lost, since its state is.
Whatever happens, the sandbox is closed before this returns or raises.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agentgym.sandbox.protocol import Image, SandboxBackend, SandboxError
from agentgym.store.records import FinishReason, Step, Termination, Trajectory
from agentgym.tasks.model import Task
from harness.budget import Budget
from harness.context import Context
from harness.policies.protocol import Generation, Policy, PolicyError
from harness.profile import Profile
from harness.recorder import Prefix, Recorder, Setting
from harness.render import GuardedRenderer
from harness.stopping import Watch
from harness.tools import Call, MalformedCall, ToolContext, read_call
from harness.workplace import Workplace
from harness.workspace_tree import workspace_tree


async def run_episode(
    task: Task,
    *,
    policy: Policy,
    renderer: GuardedRenderer,
    profile: Profile,
    backend: SandboxBackend,
    image: Image,
    seed: int | None = None,
    run_id: str = "",
    group_id: str = "",
    prefix: Prefix | None = None,
    on_phase: Callable[[str], None] | None = None,
    on_cancel: Callable[[Trajectory], None] | None = None,
) -> Trajectory:
    """Run one episode of `policy` on `task`.

    seed: makes a greedy or scripted episode reproducible; each call samples with a seed derived from it. prefix: what has
    happened before, in another trajectory, whose child this one becomes. on_phase: told
    "start", "inference", "tool" or "grade" as each begins. on_cancel: gets the partial trajectory if the task running this is
    cancelled; CancelledError then propagates. Raises RenderError where the renderer cannot render the task at all.
    """
    setting = Setting(task, policy, renderer, profile, backend, image, seed, run_id, group_id, prefix)
    episode = _Episode(setting, Recorder(setting, on_phase))
    try:
        return await episode.place.episode(episode.act)
    except asyncio.CancelledError:
        if on_cancel:
            on_cancel(episode.record.trajectory(Termination.CANCELLED, error="cancelled"))
        raise


@dataclass(slots=True)
class _Episode:
    setting: Setting
    record: Recorder
    place: Workplace = field(init=False)

    def __post_init__(self) -> None:
        self.place = Workplace(self.setting, self.record)

    async def act(self) -> Termination:
        """The loop; returns why it ended."""
        await self.place.start()
        task, profile, policy = self.setting.task, self.setting.profile, self.setting.policy
        context_length = min(profile.limits.max_context, policy.context_length)
        compact_at = profile.context.at_tokens or context_length * 3 // 4
        context = Context(self.setting.renderer, profile.tool_specs, profile.context, compact_at)
        context.begin(profile.first_messages(instruction=task.instruction, workdir=task.workdir, task_id=task.id))
        budget = Budget(profile.limits, context_length, profile.limits.wall_time_s or task.agent_timeout_s)
        tools = self.place.tools(budget.deadline)
        watch = Watch(profile.stop)
        if self.setting.prefix is not None:
            await self.setting.prefix.restore(context, budget, watch, tools)
        while (ended := budget.exhausted(len(context))) is None:
            generation = await self._generate(context, budget)
            if generation is None:
                return Termination.TIME_LIMIT
            budget.spend(len(generation.token_ids))
            if context.awaits_summary:
                context.summarised(generation.token_ids)
                continue
            cut = generation.finish_reason is not FinishReason.STOP
            call = read_call(context.parse(generation.token_ids), profile.tool_set, turn=budget.turns, cut=cut)
            step, done = await self._execute(call, tools)
            self.record.steps.append(step)
            if done:
                return Termination.SUBMITTED
            if profile.stop.tests_passed and await self._passes():
                return Termination.TESTS_PASSED
            if verdict := watch.see(step):
                return verdict
            context.extend(generation.token_ids, [answer_message(call, step.observation)])
        if ended is Termination.TIME_LIMIT and not self.record.calls:
            raise _no_answer(budget)
        return ended

    async def _generate(self, context: Context, budget: Budget) -> Generation | None:
        """One recorded call of the policy; None where the episode's time ran out before it answered.

        Raises PolicyError where it has never answered: an episode in which nothing was sampled says nothing about the
        policy, only about the server or the machine that was too slow for it.
        """
        prompt, sampling, started_at = context.prompt, self.record.next_sampling(), time.time()
        timer = asyncio.timeout(budget.deadline - time.monotonic())
        try:
            with self.record.phase("inference"):
                async with timer:
                    generation = await self.setting.policy.generate(
                        prompt,
                        sampling=sampling,
                        max_tokens=budget.call_tokens(len(prompt)),
                        stop_token_ids=self.setting.renderer.get_stop_token_ids(),
                        episode_id=self.record.id,
                    )
        except TimeoutError as error:
            if timer.expired() and self.record.calls:
                return None
            if timer.expired():
                raise _no_answer(budget) from error
            raise PolicyError(f"the policy's own time-out passed: {error}") from error
        self.record.call(prompt, generation, sampling, context.event, started_at)
        return generation

    async def _execute(self, call: Call | MalformedCall, tools: ToolContext) -> tuple[Step, bool]:
        """Run the call, or answer what is wrong with it; the step as recorded, and whether the policy is done."""
        index = len(self.record.calls) - 1
        if isinstance(call, MalformedCall):
            return Step(index, call.tool, {}, call.problem, valid=False), False
        started = time.monotonic()
        with self.record.phase("tool"):
            try:
                seen = await call.tool.run(tools, call.arguments)
            except SandboxError as error:
                if self.record.steps or self.setting.prefix or not error.retry_safe:
                    raise
                # Nothing has been shown yet, so a fresh sandbox continues the same episode.
                await self.place.close()
                await self.place.start()
                tools.sandbox = self.place.live
                seen = await call.tool.run(tools, call.arguments)
            duration = time.monotonic() - started
            tree = await self._tree(call)
        step = Step(
            call_index=index,
            tool=call.tool.name,
            arguments=call.arguments,
            observation=seen.text,
            valid=seen.valid,
            exit_code=seen.exit_code,
            duration=duration,
            truncated=seen.truncated,
            tree_hash=tree,
        )
        return step, seen.done

    async def _tree(self, call: Call) -> str | None:
        if not self.setting.profile.tree_hashes:
            return None
        if not call.tool.changes_files and self.record.steps:
            return self.record.steps[-1].tree_hash
        return await workspace_tree(self.place.live, self.setting.task.workdir)

    async def _passes(self) -> bool:
        """Grade the workspace if the last call changed it; keeps the grade of the first passing state."""
        steps = self.record.steps
        trees = [step.tree_hash for step in steps[-2:]]
        if not steps[-1].valid or (len(trees) == 2 and trees[0] == trees[1] and trees[0] is not None):
            return False
        patch = await self.place.patch()
        verdict = await self.place.grade(patch) if patch.diff else None
        if verdict is None or verdict.reward != 1.0:
            return False
        self.record.grade = verdict
        return True


def _no_answer(budget: Budget) -> PolicyError:
    return PolicyError(
        f"no answer within the episode's {budget.wall_time_s:g} s",
        hint="a faster server, fewer episodes at once, or more wall time (limits.wall_time_s of the profile)",
    )


def answer_message(call: Call | MalformedCall, observation: str) -> dict[str, str]:
    """A tool message where the policy called something, else a user message: templates pair calls and results."""
    if isinstance(call, MalformedCall) and not call.attempted:
        return {"role": "user", "content": observation}
    name = call.tool.name if isinstance(call, Call) else call.tool
    return {"role": "tool", "content": observation, "tool_call_id": call.call_id, "name": name or "unknown"}
