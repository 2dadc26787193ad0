"""How good is the policy now? A measurement on held-out tasks while a run trains, in episodes of a run of their own.

The learner takes no step meanwhile, so all episodes of one measurement have one version (rollouts go on beside it).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from agentgym.observe.success import Outcomes, pass_at_k
from agentgym.sandbox.protocol import SandboxBackend
from agentgym.store import Store
from agentgym.tasks import Task
from harness.engine import run_rollouts
from harness.jobs import plan
from trainer.online.config import OnlineConfig
from trainer.online.rollouts import Acting


def held_out_measurement(
    config: OnlineConfig, tasks: Sequence[Task], acting: Acting, backend: SandboxBackend, store: Store
) -> Callable[[int], Awaitable[dict[str, float]]]:
    """A function of the policy's version: pass@1 with its interval, and how many tasks had a verdict."""
    jobs = plan(tasks, acting.policy, acting.renderer, acting.profile, seed=config.seed)

    async def measure(version: int) -> dict[str, float]:
        report = await run_rollouts(
            jobs,
            run_id=f"{config.run_id}-held-out-{version:06d}",
            store=store,
            backend=backend,
            concurrency=config.concurrency,
            environment_retries=config.environment_retries,
        )
        outcomes = Outcomes.of(store.summary(one) for one in report.trajectory_ids)
        found = pass_at_k(outcomes, 1)
        if found is None:
            return {}
        return {
            "held_out_success": found.value,
            "held_out_low": found.low,
            "held_out_high": found.high,
            "held_out_tasks": float(found.tasks),
        }

    return measure
