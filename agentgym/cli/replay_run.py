"""The work of `agentgym replay`: several trajectories at once, each through the parts of the plan.

What one trajectory lacks (its task changed, no profile, a parent that is gone) is its own fault and not the others'; with
only one it is the command's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from agentgym.cli.policy import load_policy, load_tokenizer, quiet_transformers
from agentgym.cli.replay_report import Replayed
from agentgym.cli.shared import backend_for, open_registry
from agentgym.errors import AgentGymError, InputError
from agentgym.store import Store, Trajectory
from agentgym.store.records import PolicyKind
from agentgym.store.states import WorkspaceStates
from agentgym.tasks import Task
from agentgym.together import together
from harness.progress import progress
from harness.render import GuardedRenderer, load_renderer
from harness.replay import (
    Rescorer,
    ServerRescorer,
    fork,
    profile_of,
    reexecute,
    regrade,
    rerender,
    scorer_for,
    whole,
)

if TYPE_CHECKING:
    from agentgym.cli.replay import ReplayPlan
    from agentgym.sandbox.protocol import SandboxBackend
    from harness.policies.protocol import Policy


class Replayer:
    """Models, sandboxes and tokenizers are opened when a part first needs them, and once."""

    def __init__(self, plan: ReplayPlan, store: Store, url: str) -> None:
        self._plan = plan
        self._store = store
        self._registry = open_registry(url)
        self._backend: SandboxBackend | None = None
        self._renderers: dict[str, GuardedRenderer] = {}
        self._scoring = asyncio.Lock()
        quiet_transformers()

    async def all(self, ids: Sequence[str], on_done: Callable[[], None]) -> list[Replayed]:
        """One result per id, in order. With one id its error is raised."""
        found: list[Replayed] = [Replayed(one, "") for one in ids]
        waiting = iter(enumerate(ids))
        async with contextlib.AsyncExitStack() as stack:
            plan = self._plan
            if plan.reexecute or plan.regrade or plan.progress or plan.from_step is not None:
                self._backend = await stack.enter_async_context(backend_for(plan.backend, owner="replay"))
            workers = (self._worker(waiting, found, on_done) for _ in range(min(plan.concurrency, len(ids))))
            await together(workers)
            if "_policy" in self.__dict__:
                await self._policy.close()
        self._registry.close()
        return found

    async def _worker(
        self, waiting: Iterable[tuple[int, str]], found: list[Replayed], on_done: Callable[[], None]
    ) -> None:
        for index, trajectory_id in waiting:
            try:
                record = self._store.get(trajectory_id)
                found[index] = Replayed(trajectory_id, record.task_id)
                await self._one(record, found[index])
            except AgentGymError as error:
                if len(found) == 1:
                    raise
                found[index].error = str(error)
            on_done()

    async def _one(self, record: Trajectory, result: Replayed) -> None:
        plan = self._plan
        if plan.rescore is not None and record.policy_kind is PolicyKind.MODEL:
            async with self._scoring:
                result.rescore = await asyncio.to_thread(self._scorer.score, record)
            result.table = result.rescore.table(plan.table)
            if result.table:
                result.text = self._texts(record, [row.token_id for row in result.table])
        runs = plan.reexecute or plan.progress or plan.from_step is not None
        if not (runs or plan.regrade or plan.rerender):
            return
        task = self._task(record)
        if plan.regrade and not plan.reexecute:
            assert self._backend is not None
            result.recorded_reward = record.reward
            result.grade = await regrade(record, task, self._backend)
        if not (runs or plan.rerender):
            return
        joined = whole(record, self._store)
        profile = profile_of(record, self._store)
        if plan.rerender:
            result.rerender = rerender(joined, task, profile, self._renderer(record))
        if plan.reexecute:
            assert self._backend is not None
            result.reexecute = await reexecute(joined, task, self._backend, profile=profile, regrade=plan.regrade)
            result.recorded_reward, result.grade = record.reward, result.reexecute.grade
        if plan.progress:
            assert self._backend is not None
            result.progress = await progress(joined, task, self._backend, profile=profile)
            await asyncio.to_thread(self._store.put_states, _own(result.progress, record, joined))
        if plan.from_step is not None:
            assert self._backend is not None
            children = await fork(
                record,
                task,
                step=plan.from_step,
                joined=joined,
                policy=self._policy,
                renderer=self._renderer(record, of=plan.policy),
                profile=profile,
                backend=self._backend,
                rollouts=plan.rollouts,
                seed=plan.seed,
                run_id=plan.into,
                concurrency=plan.concurrency,
                on_done=lambda child: self._store.add(child, profile.document()),
            )
            result.children = [(child.id, child.termination.value, child.reward) for child in children]

    def _task(self, record: Trajectory) -> Task:
        if not record.task_digest:
            raise InputError(f"trajectory {record.id[:8]} was imported without a task: only --rescore can be done")
        return self._registry.get(record.task_digest).load()

    def _texts(self, record: Trajectory, ids: list[int]) -> list[str]:
        """The tokens' text, where a tokenizer is at hand."""
        try:
            renderer = self._renderer(record, of=self._plan.rescore)
        except InputError:
            return ["" for _ in ids]
        return [renderer.decode([one]) for one in ids]

    def _renderer(self, record: Trajectory, of: str | None = None) -> GuardedRenderer:
        """By `--tokenizer`, else by the trajectory's model, else by the model `of` the command line."""
        named = self._plan.tokenizer or record.model or of
        if named is None or (named.startswith("http") and not self._plan.tokenizer):
            raise InputError(
                f"trajectory {record.id[:8]} does not say which model's tokenizer made its prompts", hint="--tokenizer"
            )
        if named not in self._renderers:
            self._renderers[named] = load_renderer(load_tokenizer(named, None))
        return self._renderers[named]

    @cached_property
    def _scorer(self) -> Rescorer | ServerRescorer:
        assert self._plan.rescore is not None
        return scorer_for(self._plan.rescore)

    @cached_property
    def _policy(self) -> Policy:
        assert self._plan.policy is not None
        return load_policy(self._plan.policy)


def _own(found: WorkspaceStates, record: Trajectory, joined: Trajectory) -> WorkspaceStates:
    """Those of the trajectory's own steps: its parent's come before, and are the parent's to tell."""
    inherited = len(joined.steps) - len(record.steps)
    own = tuple(replace(one, step=one.step - inherited) for one in found.states if one.step >= inherited)
    return WorkspaceStates(record.id, own)
