"""Rollouts on many machines: one rollout engine per Ray actor, each with a share of the run's episodes.

A live policy, store or sandbox engine cannot travel, so what travels is how to make them: each actor enters the `Workshop` that
`open_workshop` gives and runs the engine of `harness.engine` on its share. Ray places actors and starts those again that have
died; an actor that starts again skips what is stored, as any process on the run does. Actors on several machines need a store
that all of them reach (PostgreSQL).

`ray` is an extra of this package and is imported by nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

from agentgym.errors import AgentGymError, MachineError
from agentgym.sandbox.protocol import SandboxBackend
from agentgym.store import Store
from harness.engine import RolloutReport, Runner, run_rollouts
from harness.jobs import Job

_RESTARTS = 3


@dataclass(frozen=True, slots=True)
class Workshop:
    """What one actor works with. jobs: all of the run's, in the same order in every actor."""

    jobs: Sequence[Job]
    store: Store
    backend: SandboxBackend
    episode: Runner


OpenWorkshop = Callable[[], AbstractAsyncContextManager[Workshop]]
"""Must be picklable: a function of a module, or a partial of one."""


class RayError(AgentGymError):
    """Ray lost actors more often than it may start them again, or the work in one of them failed."""


async def run_on_ray(
    open_workshop: OpenWorkshop,
    jobs: int,
    *,
    run_id: str,
    actors: int,
    concurrency: int = 8,
    environment_retries: int = 2,
    retry_failed: bool = False,
    address: str | None = None,
    resources: dict[str, float] | None = None,
) -> RolloutReport:
    """Run `jobs` jobs of a workshop on `actors` actors, `concurrency` episodes in each.

    address: of a running cluster; None: a local one, for this call. resources: what one actor asks Ray for, such as
    {"CPU": 4}. Cancelling cancels every actor's run, which closes its sandboxes. Raises MachineError without Ray.
    """
    try:
        import ray
    except ImportError as error:
        raise MachineError("Ray is not installed", hint="pip install 'agentgym[ray]'") from error
    ours = not ray.is_initialized()
    if ours:
        await asyncio.to_thread(
            ray.init, address=address, logging_level=logging.WARNING, log_to_driver=False, include_dashboard=False
        )
    wanted = dict(resources or {"CPU": 1})
    engine: Any = ray.remote(
        num_cpus=wanted.pop("CPU", 0),
        num_gpus=wanted.pop("GPU", 0),
        resources=wanted,
        max_restarts=_RESTARTS,
        max_task_retries=_RESTARTS,
    )(_Engine)
    crew = [engine.remote(open_workshop) for _ in range(min(actors, jobs))]
    settings = {"concurrency": concurrency, "environment_retries": environment_retries, "retry_failed": retry_failed}
    shares = [list(range(start, jobs, len(crew))) for start in range(len(crew))]
    tasks = [actor.run.remote(share, run_id, settings) for actor, share in zip(crew, shares, strict=True)]
    try:
        reports = await asyncio.gather(*(_result(ray, task) for task in tasks))
    except asyncio.CancelledError:
        for task in tasks:
            ray.cancel(task)
        await asyncio.gather(*(_result(ray, task) for task in tasks), return_exceptions=True)
        raise
    finally:
        for actor in crew:
            ray.kill(actor)
        if ours:
            await asyncio.to_thread(ray.shutdown)
    return merge(reports, shares, jobs)


async def _result(ray: Any, task: Any) -> RolloutReport:
    try:
        return await task
    except ray.exceptions.RayTaskError as error:
        raise RayError(f"the work in an actor failed: {error.cause!r}") from error
    except ray.exceptions.RayError as error:
        raise RayError(f"an actor was lost for good: {error}") from error


class _Engine:
    """The actor: one process, one asyncio loop, one workshop."""

    def __init__(self, open_workshop: OpenWorkshop) -> None:
        self._open = open_workshop

    async def run(self, share: Sequence[int], run_id: str, settings: dict[str, Any]) -> RolloutReport:
        async with self._open() as shop:
            jobs = [shop.jobs[index] for index in share]
            return await run_rollouts(
                jobs, run_id=run_id, store=shop.store, backend=shop.backend, episode=shop.episode, **settings
            )


def merge(reports: Sequence[RolloutReport], shares: Sequence[Sequence[int]], jobs: int) -> RolloutReport:
    """One report in the order of the run's jobs. seconds: of the slowest actor."""
    whole = RolloutReport(ids=[None] * jobs)
    for report, share in zip(reports, shares, strict=True):
        for index, id_ in zip(share, report.ids, strict=True):
            whole.ids[index] = id_
        whole.failed |= {share[index]: reason for index, reason in report.failed.items()}
        for phase, seconds in report.phases.items():
            whole.phases[phase] = whole.phases.get(phase, 0.0) + seconds
    return replace(
        whole,
        skipped=sum(report.skipped for report in reports),
        seconds=max((report.seconds for report in reports), default=0.0),
    )
