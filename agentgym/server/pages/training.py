"""Training: the list of runs, and one run's curves under the questions they answer."""

from __future__ import annotations

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse

from agentgym.server.access.scopes import needs_read
from agentgym.server.api.query import ALauncher, AStore
from agentgym.server.pages.render import page
from agentgym.server.runs.training import questions, trained_runs
from agentgym.store import TrajectoryFilter

router = APIRouter(dependencies=[Depends(needs_read)])


@router.get("/training")
def index(store: AStore) -> HTMLResponse:
    return page("training_runs.html", runs=trained_runs(store))


@router.get("/training/{run_id}")
def one(run_id: str, store: AStore, launcher: ALauncher) -> HTMLResponse:
    launched = launcher.find(run_id)
    live = launched is not None and launched.status == "running"
    found = questions(store, run_id, launched)
    rolled_out = launched is not None or store.count(TrajectoryFilter(run_id=run_id)) > 0
    return page("training.html", run_id=run_id, questions=found, live=live, rolled_out=rolled_out)
