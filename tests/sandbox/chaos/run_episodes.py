"""A process that rolls out a shipped task, to be disturbed: `run_episodes.py STORE RUN_ID EPISODES`.

One line per event on stdout, and a report at the end. Every episode acts for some seconds and submits nothing, so the
real grader gives 0.0 to each that was let finish.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from agentgym.models import pull
from agentgym.sandbox import open_backend
from agentgym.store import Store
from agentgym.tasks import load_task
from harness.engine import RolloutEvent, run_rollouts
from harness.jobs import plan
from harness.policies.scripted import EMPTY_SCRIPT, ScriptedPolicy, Turn
from harness.profile import load_profile
from harness.render import load_renderer

TASK = Path(__file__).resolve().parents[3] / "environments" / "tutorial-duration"


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


async def main(store_url: str, run_id: str, episodes: int) -> None:
    from transformers import AutoTokenizer

    renderer, profile = load_renderer(AutoTokenizer.from_pretrained(pull())), load_profile("tiny")
    acting = [Turn(tool="bash", arguments={"command": f"sleep 0.5; echo {number}"}) for number in range(5)]
    policy = ScriptedPolicy((*acting, *EMPTY_SCRIPT), renderer, name="slow")
    jobs = plan([load_task(TASK)], policy, renderer, profile, rollouts=episodes)

    def on_event(event: RolloutEvent) -> None:
        say(event=event.kind.value, phase=event.phase, error=event.error)

    backend = await open_backend("docker", owner="tests-chaos")
    try:
        with Store.open(store_url) as store:
            report = await run_rollouts(
                jobs,
                run_id=run_id,
                store=store,
                backend=backend,
                concurrency=3,
                environment_retries=3,
                on_event=on_event,
            )
            found = [store.get(id_) for id_ in report.trajectory_ids]
            repeated = backend.metrics().retries
    finally:
        await backend.close()
    say(
        report=True,
        failed=report.failed,
        skipped=report.skipped,
        endings=[[str(one.termination), one.reward] for one in found],
        starts_repeated=repeated,
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
