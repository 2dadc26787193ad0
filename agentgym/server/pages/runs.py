"""Runs: the list, one run with its curves and behaviour, and two runs side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import HTMLResponse

from agentgym.observe import Report, drift, observe
from agentgym.observe.html import report_body
from agentgym.server.access.scopes import needs_read
from agentgym.server.api.query import ALauncher, AStore, Settings, Text
from agentgym.server.pages.render import page
from agentgym.server.runs.overview import RunInfo, overview, run_info
from agentgym.server.runs.training import has_training
from agentgym.store import Store, TrajectoryFilter

router = APIRouter(dependencies=[Depends(needs_read)])


@router.get("/")
def index(store: AStore, launcher: ALauncher) -> HTMLResponse:
    return page("runs.html", runs=overview(store, launcher))


@router.get("/runs/{run_id}")
def one_run(run_id: str, store: AStore, launcher: ALauncher) -> HTMLResponse:
    info = run_info(store, launcher, run_id)
    others = [one.id for one in overview(store, launcher, limit=50) if one.id != run_id and one.episodes]
    return page("run.html", run=info, others=others, trained=has_training(store, run_id), replayed=_replayed(info))


@router.get("/runs/{run_id}/report")
def behaviour(
    run_id: str, store: AStore, launcher: ALauncher, settings: Settings, against: Annotated[Text, Query()] = None
) -> HTMLResponse:
    """The behaviour report of a run, newest episodes where it has more than one request may read."""
    run_info(store, launcher, run_id)
    most = settings.report_trajectories
    found, total = _observed(store, run_id, most)
    change = None if against is None else drift(_observed(store, against, most)[0], found)
    body = report_body(found, base="/", change=change) if found.episodes else ""
    return page("report.html", run_id=run_id, body=body, read=found.episodes, total=total, against=against)


def _replayed(info: RunInfo) -> list[dict[str, Any]] | None:
    """Per trajectory, what a replay launched here found; None for any other run, or before it is done."""
    if info.launched is None or info.launched.kind != "replay":
        return None
    return (info.launched.result() or {}).get("trajectories")


def _observed(store: Store, run_id: str, most: int) -> tuple[Report, int]:
    where = TrajectoryFilter(run_id=run_id, newest_first=True)
    return observe(store, replace(where, limit=most)), store.count(where)
