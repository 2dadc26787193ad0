"""The REST API, one file per resource; everything lies under `/v1`."""

from fastapi import APIRouter

from agentgym.server.api import evaluations, export, machine, runs, system, tasks, training, trajectories

# What is asked most comes first: routers are tried in turn.
PARTS = (
    trajectories.router,
    system.open_router,
    system.router,
    tasks.router,
    export.router,
    runs.router,
    evaluations.router,
    training.router,
    machine.router,
)

router = APIRouter(prefix="/v1")
for part in PARTS:
    router.include_router(part)

__all__ = ["PARTS", "router"]
