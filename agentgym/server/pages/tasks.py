"""Tasks: the list with pass rates, and one task with its validation, its pass rate over versions, and who solved it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse

from agentgym.observe.intervals import Interval, wilson
from agentgym.server import listing
from agentgym.server.access.scopes import needs_read
from agentgym.server.api.query import ARegistry, AStore, Text
from agentgym.server.pages.render import page
from agentgym.store import NotFoundError, Store, TrajectoryFilter
from agentgym.store.engine import reading
from agentgym.store.schema import trajectory as rows
from agentgym.tasks import TaskError

router = APIRouter(dependencies=[Depends(needs_read)])


@router.get("/tasks")
def index(store: AStore, registry: ARegistry, search: Text = None) -> HTMLResponse:
    sought = (search or "").lower()
    entries = [one for one in registry.list() if sought in f"{one.id}\n{one.manifest.get('instruction', '')}".lower()]
    return page("tasks.html", tasks=entries, rates=_rates(store, rows.c.task_id), search=search or "")


@router.get("/tasks/{task_id:path}")
def one(task_id: str, store: AStore, registry: ARegistry) -> HTMLResponse:
    if "\0" in task_id:
        raise NotFoundError(f"no task {task_id!r}")
    try:
        entry = registry.get(task_id)
    except TaskError as error:
        raise NotFoundError(str(error.args[0]), hint=error.hint) from error
    where = TrajectoryFilter(task_id=entry.id)
    solved = listing.page(store, replace(where, reward_min=1.0), limit=20)
    return page(
        "task.html",
        task=entry,
        by_policy=_rates(store, rows.c.policy, rows.c.task_id == entry.id),
        by_version=_rates(store, rows.c.version_max, rows.c.task_id == entry.id),
        solved=solved,
        total=store.count(where),
    )


def _rates(store: Store, by: sa.Column[Any], where: sa.ColumnElement[bool] = sa.true()) -> dict[Any, Interval]:
    """P(success) by one column, counted in the database."""
    solved = sa.func.sum(sa.case((rows.c.reward >= 1, 1), else_=0))
    query = sa.select(by, solved, sa.func.count(rows.c.reward)).where(where).group_by(by).order_by(by)
    with reading(store.engine) as connection:
        return {name: wilson(int(good or 0), count) for name, good, count in connection.execute(query)}
