"""A typed client of `agentgym serve`.

    with Client("http://127.0.0.1:8000", token=...) as client:
        for one in client.trajectories(run_id="r1", reward_max=0.0):     # pages as it goes
            print(one.id, one.termination)
        run = client.launch("rollout", {"tasks": ["all"], "rollouts": 4})
        for event in client.watch(run.id):
            print(event.episodes, event.success)

Thin: what the API answers, in the API's own models (`agentgym.server.api`), and every problem+json as `ServerError`.
Requests that are safe to repeat are repeated, launches too: they carry an idempotency key of their own.
"""

from agentgym.client.client import Client
from agentgym.client.errors import ServerError

__all__ = ["Client", "ServerError"]
