"""From a store to behaviours and reports: reads columns and the detail blob, never tokens.

A damaged trajectory is named in the report and does not stop it. Which files a task's tests own is asked of the task
table once per task version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from agentgym.observe.behaviour import Behaviour, behaviour_of
from agentgym.observe.summary import Report, Summariser
from agentgym.store import CorruptError, Store, TrajectoryFilter, TrajectorySummary
from agentgym.store.detail import decode_detail
from agentgym.store.engine import reading
from agentgym.store.schema import task as tasks
from agentgym.store.schema import trajectory_body as bodies
from agentgym.store.stream import OnCorrupt, log_corrupt, stream


def behaviours(store: Store, where: TrajectoryFilter, *, on_corrupt: OnCorrupt = log_corrupt) -> Iterator[Behaviour]:
    """Stream the behaviour of every matching trajectory."""
    owned: dict[str, Sequence[str]] = {}

    def decode(summary: TrajectorySummary, detail: bytes) -> Behaviour:
        if summary.task_digest not in owned:
            owned[summary.task_digest] = _test_paths(store, summary.task_digest)
        return of_detail(summary, decode_detail(detail), owned[summary.task_digest])

    yield from stream(store.engine, where, (bodies.c.detail,), decode, on_corrupt)


def of_detail(summary: TrajectorySummary, detail: dict[str, Any], test_paths: Sequence[str] = ()) -> Behaviour:
    """The behaviour in a decoded detail blob."""
    return behaviour_of(
        summary,
        detail["steps"],
        patch=detail["patch"],
        timings=detail["timings"],
        notes=detail["metadata"].get("grade_notes", ()),
        test_paths=test_paths,
    )


def observe(
    store: Store,
    where: TrajectoryFilter = TrajectoryFilter(),
    *,
    title: str = "",
    on_progress: Callable[[], None] | None = None,
) -> Report:
    """The report over all matching trajectories. on_progress: called after each."""
    summariser = Summariser(title or where.run_id or "everything")

    def lost(trajectory_id: str, _: CorruptError) -> None:
        summariser.unreadable.append(trajectory_id)

    for one in behaviours(store, where, on_corrupt=lost):
        summariser.add(one)
        if on_progress:
            on_progress()
    return summariser.report()


def _test_paths(store: Store, digest: str) -> Sequence[str]:
    with reading(store.engine) as connection:
        manifest = connection.execute(sa.select(tasks.c.manifest).where(tasks.c.digest == digest)).scalar()
    return tuple((manifest or {}).get("test_paths", ()))
