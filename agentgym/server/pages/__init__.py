"""The pages for people: rendered here, with a little script of ours for keys, live runs and the token heat map.

No bundle and no framework: a page is readable without script, loads one style sheet, and is fast because the browser
lays out only what is on screen (`content-visibility`). uPlot, vendored under `static/vendor`, draws the curves.
"""

from fastapi import APIRouter

from agentgym.server.pages import entry, runs, tasks, training, trajectories

PARTS = (entry.router, runs.router, trajectories.router, training.router, tasks.router)

router = APIRouter(include_in_schema=False)
for part in PARTS:
    router.include_router(part)

__all__ = ["PARTS", "router"]
