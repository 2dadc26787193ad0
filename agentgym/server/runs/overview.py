"""What is known of a run: how its episodes ended, counted in the database; and, where a server launched it, its process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from agentgym.observe.intervals import Interval, wilson
from agentgym.server.runs.launch import LaunchedRun, Launcher
from agentgym.store import NotFoundError, Store
from agentgym.store.engine import reading
from agentgym.store.schema import trajectory as rows


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run by its id. first_at, last_at: unix seconds of its oldest and newest episode. launched: None for a run from
    a command line. policies: names that acted in it. tokens: sampled ones."""

    id: str
    episodes: int
    success: Interval
    reward_mean: float | None
    terminations: Mapping[str, int]
    policies: Sequence[str]
    tasks: int
    tokens: int
    version_min: int | None
    version_max: int | None
    first_at: float | None
    last_at: float | None
    launched: LaunchedRun | None = None

    @property
    def failures(self) -> int:
        """Episodes without a verdict."""
        return self.episodes - self.success.trials


def overview(store: Store, launcher: Launcher, *, limit: int = 200) -> list[RunInfo]:
    """The newest runs first; one that has no episode yet is there too."""
    launched = {one.id: one for one in launcher.list()}
    newest = sa.func.max(rows.c.created_at)
    recent = sa.select(rows.c.run_id).group_by(rows.c.run_id).order_by(newest.desc()).limit(limit)
    with reading(store.engine) as connection:
        names = list(connection.execute(recent).scalars())
        found = _infos(connection, names)
    infos = {
        name: replace(found.get(name, _empty(name)), launched=launched.get(name))
        for name in dict.fromkeys([*launched, *names])
    }
    return sorted(infos.values(), key=_moment, reverse=True)[:limit]


def run_info(store: Store, launcher: Launcher, run_id: str) -> RunInfo:
    """Raises NotFoundError for a run of which nothing is known."""
    if "\0" in run_id:
        raise NotFoundError(f"no run {run_id!r}")
    with reading(store.engine) as connection:
        info = _infos(connection, [run_id]).get(run_id)
    launched = launcher.find(run_id)
    if info is None and launched is None:
        raise NotFoundError(f"no run {run_id!r}", hint="GET /v1/runs lists them")
    return replace(info or _empty(run_id), launched=launched)


def _moment(info: RunInfo) -> float:
    started = info.launched.started_at if info.launched else None
    return max(info.last_at or 0.0, started or 0.0)


def _infos(connection: sa.Connection, names: Sequence[str]) -> dict[str, RunInfo]:
    column = rows.c
    where = column.run_id.in_(names)
    totals = sa.select(
        column.run_id,
        sa.func.count().label("episodes"),
        sa.func.count(column.reward).label("graded"),
        sa.func.sum(sa.case((column.reward >= 1, 1), else_=0)).label("solved"),
        sa.func.avg(column.reward).label("reward_mean"),
        sa.func.count(sa.distinct(column.task_id)).label("tasks"),
        sa.func.sum(column.action_tokens).label("tokens"),
        sa.func.min(column.version_min).label("version_min"),
        sa.func.max(column.version_max).label("version_max"),
        sa.func.min(column.created_at).label("first_at"),
        sa.func.max(column.created_at).label("last_at"),
    )
    ended: dict[str, dict[str, int]] = {}
    acted: dict[str, dict[str, int]] = {}
    for target, by in ((ended, column.termination), (acted, column.policy)):
        query = sa.select(column.run_id, by, sa.func.count()).where(where).group_by(column.run_id, by)
        for run_id, name, count in connection.execute(query):
            target.setdefault(run_id, {})[name] = count
    copied = ("episodes", "reward_mean", "tasks", "version_min", "version_max", "first_at", "last_at")
    return {
        row.run_id: RunInfo(
            id=row.run_id,
            success=wilson(int(row.solved or 0), row.graded),
            terminations=ended[row.run_id],
            policies=sorted(acted[row.run_id]),
            tokens=int(row.tokens or 0),
            **{name: getattr(row, name) for name in copied},
        )
        for row in connection.execute(totals.where(where).group_by(column.run_id))
    }


def _empty(run_id: str) -> RunInfo:
    return RunInfo(run_id, 0, wilson(0, 0), None, {}, (), 0, 0, None, None, None, None)
