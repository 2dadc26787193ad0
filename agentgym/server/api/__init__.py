"""The REST API, one file per resource; everything lies under `/v1`."""

from fastapi import APIRouter

from agentgym.server.api import runs, system, tasks, trajectories

router = APIRouter(prefix="/v1")
for part in (system.open_router, system.router, tasks.router, trajectories.router, runs.router):
    router.include_router(part)

__all__ = ["router"]
