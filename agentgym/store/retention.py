"""Remove trajectories for good: by run, age, or whatever a filter can say.

A child of a prefix replay holds only its own part, and names the trajectory it branches off. So an original is kept while a
trajectory outside the selection continues it, unless the caller says that those go too. Harness documents that only
removed trajectories named go with them. Everything happens in one transaction; `vacuum` then gives the space back
to the file system.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from agentgym.store.engine import reading, writing
from agentgym.store.errors import StoreError
from agentgym.store.filter import TrajectoryFilter
from agentgym.store.schema import document as documents
from agentgym.store.schema import trajectory as rows
from agentgym.store.schema import trajectory_body as bodies
from agentgym.store.store import Store


@dataclass(frozen=True, slots=True)
class Removal:
    """trajectories: gone, or to go. kept: selected, but continued by others. documents: named by no other trajectory.
    blob_bytes: compressed size of what goes."""

    trajectories: int
    kept: int
    documents: int
    blob_bytes: int


def plan_removal(store: Store, where: TrajectoryFilter, *, with_children: bool = False) -> Removal:
    """What `remove` would do now."""
    with reading(store.engine) as connection:
        return _measure(connection, where, with_children)


def remove(store: Store, where: TrajectoryFilter, *, with_children: bool = False) -> Removal:
    """Delete all matching trajectories (`limit` and `after` are ignored) in one transaction. Raises StoreError."""
    with writing(store.engine) as connection:
        found = _measure(connection, where, with_children)
        gone = sa.select(_doomed(where, with_children).c.id)
        orphaned = connection.execute(_orphaned(gone)).scalars().all()
        connection.execute(rows.delete().where(rows.c.id.in_(gone)))
        connection.execute(documents.delete().where(documents.c.digest.in_(orphaned)))
    return found


def vacuum(store: Store) -> None:
    """Give freed pages back to the file system. SQLite writes the file anew and needs as much free space. Raises StoreError."""
    try:
        with store.engine.connect() as connection:
            plain = connection.execution_options(isolation_level="AUTOCOMMIT")
            if store.engine.dialect.name == "sqlite":
                driver = plain.connection.driver_connection
                assert driver is not None
                driver.execute("VACUUM")
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            else:
                plain.exec_driver_sql("VACUUM")
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise StoreError(
            f"the store could not be compacted: {error}",
            hint="what was removed is removed; free some space and try again",
        ) from error


def _doomed(where: TrajectoryFilter, with_children: bool) -> sa.Subquery | sa.CTE:
    """Ids that go."""
    chosen = sa.select(rows.c.id).where(*replace(where, after=None).conditions())
    if with_children:
        doomed = chosen.cte("doomed", recursive=True)
        return doomed.union(sa.select(rows.c.id).join(doomed, rows.c.parent_id == doomed.c.id))
    needed = sa.select(rows.c.parent_id.label("id")).where(rows.c.parent_id.is_not(None), rows.c.id.not_in(chosen))
    needed = needed.cte("needed", recursive=True)
    above = sa.select(rows.c.parent_id).join(needed, rows.c.id == needed.c.id).where(rows.c.parent_id.is_not(None))
    needed = needed.union(above)
    return chosen.where(rows.c.id.not_in(sa.select(needed.c.id))).subquery("doomed")


def _orphaned(gone: sa.Select[tuple[str]]) -> sa.Select[tuple[str]]:
    """Digests of harness documents that only trajectories in `gone` name."""
    named = sa.select(rows.c.harness_digest).where(rows.c.id.in_(gone))
    still = sa.select(rows.c.harness_digest).where(rows.c.id.not_in(gone))
    return sa.select(documents.c.digest).where(documents.c.digest.in_(named), documents.c.digest.not_in(still))


def _measure(connection: sa.Connection, where: TrajectoryFilter, with_children: bool) -> Removal:
    gone = sa.select(_doomed(where, with_children).c.id)
    size = sa.func.length(bodies.c.tokens) + sa.func.length(bodies.c.detail)
    chosen = sa.select(sa.func.count()).select_from(rows).where(*replace(where, after=None).conditions())
    count = connection.execute(sa.select(sa.func.count()).select_from(rows).where(rows.c.id.in_(gone))).scalar_one()
    blob_bytes = connection.execute(sa.select(sa.func.sum(size)).where(bodies.c.trajectory_id.in_(gone))).scalar()
    kept = 0 if with_children else connection.execute(chosen).scalar_one() - count
    orphaned = connection.execute(sa.select(sa.func.count()).select_from(_orphaned(gone).subquery())).scalar_one()
    return Removal(count, kept, orphaned, int(blob_bytes or 0))
