"""What one process needs to run a share of a rollout, made from its config: what travels to a Ray actor is the config alone."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agentgym.cli.rollout import RolloutConfig, episode_runner, make_jobs
from agentgym.cli.shared import backend_for, open_registry, resolve_tasks
from agentgym.store import Store
from agentgym.tasks import Task

if TYPE_CHECKING:
    from harness.engine import RolloutReport
    from harness.ray_engine import Workshop


async def roll_out_on_ray(config: RolloutConfig, tasks: list[Task], run_id: str) -> RolloutReport:
    """Run what the config asks for on Ray actors, each with a policy, a store and a sandbox engine of its own."""
    from harness.ray_engine import run_on_ray

    exactly = config.model_copy(update={"tasks": [task.digest for task in tasks]})
    return await run_on_ray(
        functools.partial(open_workshop, exactly, run_id),
        len(tasks) * config.rollouts * max(1, len(config.profile)),
        run_id=run_id,
        actors=config.actors,
        concurrency=config.concurrency,
        environment_retries=config.environment_retries,
        retry_failed=config.retry_failed,
        address=config.ray_address,
    )


@asynccontextmanager
async def open_workshop(config: RolloutConfig, run_id: str) -> AsyncIterator[Workshop]:
    """In the actor. Tasks are found by digest in the registry of the run's store."""
    from harness.ray_engine import Workshop

    jobs = make_jobs(config, resolve_tasks(config.tasks, open_registry(config.store)))
    try:
        async with (
            backend_for(config.backend, owner=f"rollout {run_id}") as backend,
            episode_runner(config) as episode,
        ):
            with Store.open(config.store) as store:
                yield Workshop(jobs, store, backend, episode)
    finally:
        for policy in {id(job.policy): job.policy for job in jobs}.values():
            await policy.close()
