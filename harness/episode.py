"""One episode: start a sandbox, let a policy act in it, take its patch, grade the patch, and return what happened.

    start -> ( generate -> parse -> execute -> observe )* -> extract patch -> grade -> Trajectory

The same code runs every policy; only what `generate` does differs. How an episode can end, and where:

    the policy           submitted, repeated_actions, invalid_actions    (the loop; graded)
    the hidden tests     tests_passed                                    (the loop, if the profile asks; graded)
    a budget             max_steps, max_tokens, context_exhausted, time_limit    (before a call, or in it; graded)
    the sandbox, grader  environment_failure    (reward None)
    the policy's server  policy_failure         (reward None)
    the user             cancelled              (reward None; handed to `on_cancel`, and the cancellation goes on)

A sandbox that fails before anything has happened in it is replaced; later the episode is lost, since its state is.
Whatever happens, the sandbox is closed before this returns or raises.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentgym.sandbox.protocol import Image, Sandbox, SandboxBackend, SandboxError
from agentgym.store.records import FinishReason, ModelCall, Step, Termination, Trajectory
from agentgym.tasks.model import Task
from agentgym.verify import extract_patch, grade
from agentgym.verify.grade import Grade, Patch
from harness.budget import Budget
from harness.context import Context
from harness.policies.protocol import Generation, Policy, PolicyError
from harness.profile import Profile
from harness.render import GuardedRenderer
from harness.stopping import Watch
from harness.tools import Call, MalformedCall, Observation, ToolContext, read_call
from harness.workspace_tree import workspace_tree

_START_ATTEMPTS = 3
_LOG_CHARS = 4000


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
    on_phase: Callable[[str], None] | None = None,
    on_cancel: Callable[[Trajectory], None] | None = None,
) -> Trajectory:
    """Run one episode of `policy` on `task`.

    seed: makes a greedy or scripted episode reproducible; each call samples with a seed derived from it. on_phase: told
    "start", "inference", "tool" or "grade" as each begins. on_cancel: gets the partial trajectory if the task running
    this is cancelled; CancelledError then propagates. Raises RenderError where the renderer cannot render the task at
    all.
    """
    episode = _Episode(task, policy, renderer, profile, backend, image, seed, run_id, group_id, on_phase)
    try:
        return await episode.run()
    except asyncio.CancelledError:
        if on_cancel:
            on_cancel(episode.trajectory(Termination.CANCELLED, error="cancelled"))
        raise


@dataclass(slots=True)
class _Episode:
    task: Task
    policy: Policy
    renderer: GuardedRenderer
    profile: Profile
    backend: SandboxBackend
    image: Image
    seed: int | None
    run_id: str
    group_id: str
    on_phase: Callable[[str], None] | None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    calls: list[ModelCall] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    patch: Patch = Patch(b"")
    grade: Grade | None = None
    sandbox: Sandbox | None = None
    started_at: float = field(default_factory=time.time)

    async def run(self) -> Trajectory:
        try:
            termination = await self._act()
            self.patch = await extract_patch(self._live, self.task, backend=self.backend)
        except SandboxError as error:
            return self.trajectory(Termination.ENVIRONMENT_FAILURE, error=f"{type(error).__name__}: {error}")
        except PolicyError as error:
            return self.trajectory(Termination.POLICY_FAILURE, error=f"{type(error).__name__}: {error}")
        finally:
            await self._close()
        if self.grade is None:
            self.grade = await self._grade()
        if self.grade.reward is None:
            error = f"grading failed (the policy's part ended with {termination}): {self.grade.error}"
            return self.trajectory(Termination.ENVIRONMENT_FAILURE, error=error)
        return self.trajectory(termination)

    async def _act(self) -> Termination:
        """The loop; returns why it ended."""
        await self._start()
        profile, task = self.profile, self.task
        context_length = min(profile.limits.max_context, self.policy.context_length)
        compact_at = profile.context.at_tokens or context_length * 3 // 4
        context = Context(self.renderer, profile.tool_specs, profile.context, compact_at)
        context.begin(profile.first_messages(instruction=task.instruction, workdir=task.workdir, task_id=task.id))
        budget = Budget(profile.limits, context_length, profile.limits.wall_time_s or task.agent_timeout_s)
        watch = Watch(profile.stop)
        tools = ToolContext(
            self._live,
            task.workdir,
            profile.observation.max_chars,
            profile.observation.timeout_s,
            budget.deadline,
            profile.observation.finish_marker,
        )
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
            self.steps.append(step)
            if done:
                return Termination.SUBMITTED
            if profile.stop.tests_passed and await self._passes():
                return Termination.TESTS_PASSED
            if verdict := watch.see(step):
                return verdict
            context.extend(generation.token_ids, [_message(call, step.observation)])
        return ended

    async def _generate(self, context: Context, budget: Budget) -> Generation | None:
        """One recorded call of the policy; None where the episode's time ran out before it answered."""
        prompt = context.prompt
        sampling = self.profile.sampling.record(_call_seed(self.seed, budget.turns))
        started_at, started = time.time(), time.monotonic()
        timer = asyncio.timeout(budget.deadline - started)
        try:
            with self._phase("inference"):
                async with timer:
                    generation = await self.policy.generate(
                        prompt,
                        sampling=sampling,
                        max_tokens=budget.call_tokens(len(prompt)),
                        stop_token_ids=self.renderer.get_stop_token_ids(),
                        episode_id=self.id,
                    )
        except TimeoutError as error:
            if timer.expired():
                return None
            raise PolicyError(f"the policy's own time-out passed: {error}") from error
        _check(generation)
        self.calls.append(
            ModelCall(
                prompt_token_ids=prompt,
                generation_token_ids=generation.token_ids,
                logprobs=generation.logprobs,
                sampling=sampling,
                policy_versions=generation.versions,
                finish_reason=generation.finish_reason,
                context_event=context.event,
                started_at=started_at,
                duration=time.monotonic() - started,
            )
        )
        return generation

    async def _execute(self, call: Call | MalformedCall, tools: ToolContext) -> tuple[Step, bool]:
        """Run the call, or answer what is wrong with it; the step as recorded, and whether the policy is done."""
        index = len(self.calls) - 1
        if isinstance(call, MalformedCall):
            return Step(index, call.tool, {}, call.problem, valid=False), False
        started = time.monotonic()
        with self._phase("tool"):
            try:
                seen = await call.tool.run(tools, call.arguments)
            except SandboxError as error:
                if self.steps or not error.retry_safe:
                    raise
                # Nothing has been shown yet, so a fresh sandbox continues the same episode.
                await self._close()
                await self._start()
                tools.sandbox = self._live
                seen = await call.tool.run(tools, call.arguments)
            duration = time.monotonic() - started
            tree = await self._tree(call)
        return _step(index, call, seen, duration, tree), seen.done

    async def _passes(self) -> bool:
        """Grade the workspace if the last call changed it; keeps the grade of the first passing state."""
        trees = [step.tree_hash for step in self.steps[-2:]]
        if not self.steps[-1].valid or (len(trees) == 2 and trees[0] == trees[1] and trees[0] is not None):
            return False
        patch = await extract_patch(self._live, self.task, backend=self.backend)
        verdict = await self._grade(patch) if patch.diff else None
        if verdict is None or verdict.reward != 1.0:
            return False
        self.grade = verdict
        return True

    async def _grade(self, patch: Patch | None = None) -> Grade:
        """Grade in a fresh sandbox; a verifier that cannot even start is a grade without a reward."""
        with self._phase("grade"):
            try:
                return await grade(self.task, patch or self.patch, self.backend, image=self.image)
            except SandboxError as error:
                return Grade(None, error=f"{type(error).__name__}: {error}")

    async def _start(self) -> None:
        with self._phase("start"):
            for attempt in range(1, _START_ATTEMPTS + 1):
                try:
                    self.sandbox = await self.backend.start(self.image, self.task.limits)
                    return
                except SandboxError as error:
                    if not error.retry_safe or attempt == _START_ATTEMPTS:
                        raise
                    await asyncio.sleep(0.5 * attempt)

    async def _close(self) -> None:
        sandbox, self.sandbox = self.sandbox, None
        # A server that cannot forget an episode, or an engine that is gone, changes nothing about what happened.
        with contextlib.suppress(PolicyError):
            await self.policy.end_episode(self.id)
        if sandbox is not None:
            with contextlib.suppress(SandboxError):  # the reaper finds by its labels what could not be removed
                await sandbox.close()

    async def _tree(self, call: Call) -> str | None:
        if not self.profile.tree_hashes:
            return None
        if not call.tool.changes_files and self.steps:
            return self.steps[-1].tree_hash
        return await workspace_tree(self._live, self.task.workdir)

    @property
    def _live(self) -> Sandbox:
        assert self.sandbox is not None, "the sandbox is used only between _start and _close"
        return self.sandbox

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to `timings[name]`."""
        if self.on_phase:
            self.on_phase(name)
        started = time.monotonic()
        try:
            yield
        finally:
            self.timings[name] = self.timings.get(name, 0.0) + time.monotonic() - started

    def trajectory(self, termination: Termination, *, error: str | None = None) -> Trajectory:
        verdict = self.grade if self.grade is not None and not termination.is_failure else None
        return Trajectory(
            task_id=self.task.id,
            task_digest=self.task.digest,
            harness_digest=self.profile.digest,
            backend=self.backend.name,
            image_digest=self.image.digest,
            policy=self.policy.name,
            policy_kind=self.policy.kind,
            model=self.policy.model,
            calls=tuple(self.calls),
            steps=tuple(self.steps),
            termination=termination,
            reward=verdict.reward if verdict else None,
            reward_vector=verdict.vector if verdict else {},
            verdicts=verdict.verdicts if verdict else {},
            patch=self.patch.diff.decode("utf-8", errors="surrogateescape"),  # encode likewise to have the diff's bytes
            timings=dict(self.timings),
            error=error,
            run_id=self.run_id,
            group_id=self.group_id,
            split=self.task.split,
            seed=self.seed,
            metadata=self._metadata(verdict),
            created_at=self.started_at,
            id=self.id,
        )

    def _metadata(self, verdict: Grade | None) -> dict[str, Any]:
        """What people want to read beside the record: names behind digests, and what the verifier had to say."""
        metadata: dict[str, Any] = {"renderer": self.renderer.name, "profile": self.profile.name}
        if verdict and verdict.notes:
            metadata["grade_notes"] = list(verdict.notes)
        if verdict and verdict.log:
            metadata["grade_log"] = verdict.log[-_LOG_CHARS:]
        return metadata


def _step(index: int, call: Call, seen: Observation, duration: float, tree: str | None) -> Step:
    return Step(
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


def _message(call: Call | MalformedCall, observation: str) -> dict[str, str]:
    """A tool message where the policy called something, else a user message: templates pair calls and results."""
    if isinstance(call, MalformedCall) and not call.attempted:
        return {"role": "user", "content": observation}
    name = call.tool.name if isinstance(call, Call) else call.tool
    return {"role": "tool", "content": observation, "tool_call_id": call.call_id, "name": name or "unknown"}


def _call_seed(seed: int | None, turn: int) -> int | None:
    """uint32, different for each turn and episode."""
    return None if seed is None else int(np.random.SeedSequence([seed, turn]).generate_state(1)[0])


def _check(generation: Generation) -> None:
    """Refuse an answer that breaks the record's invariants before anything is built on it; raises PolicyError."""
    size = len(generation.token_ids)
    if len(generation.logprobs) != size:
        raise PolicyError(f"the policy gave {len(generation.logprobs)} logprobs for {size} tokens")
    edge = 0
    for span in generation.versions:
        if span.start != edge or span.end <= span.start:
            break
        edge = span.end
    if edge != size:
        raise PolicyError(f"the policy's version spans {generation.versions} do not cover its {size} tokens")
    if not np.isfinite(generation.logprobs).all():
        raise PolicyError("the policy gave a logprob that is not finite")
