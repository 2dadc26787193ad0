"""A page of trajectories, sorted by any column that people sort by, without offsets.

A cursor says behind which row to go on: its sort value and its id, and the order they belong to. Ties are broken by id,
so no row is shown twice or left out, however many are written meanwhile. Episodes without a reward sort below all.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import sqlalchemy as sa

from agentgym.errors import InputError
from agentgym.store import Store, TrajectoryFilter, TrajectorySummary
from agentgym.store.engine import reading
from agentgym.store.rows import naming
from agentgym.store.schema import trajectory as rows

Sort = Literal["created_at", "reward", "steps", "calls", "tokens", "action_tokens"]
SORTS: tuple[Sort, ...] = get_args(Sort)
_LOWEST = -1e308


@dataclass(frozen=True, slots=True)
class Page:
    """total: how many match in all. next: the cursor of the page after this one, None at the end."""

    total: int
    items: Sequence[TrajectorySummary]
    next: str | None


def page(
    store: Store,
    where: TrajectoryFilter,
    *,
    sort: Sort = "created_at",
    descending: bool = True,
    cursor: str | None = None,
    limit: int = 50,
) -> Page:
    """Raises InputError for a cursor that is none, or of another order."""
    key = rows.c[sort] if sort != "reward" else sa.func.coalesce(rows.c.reward, _LOWEST)
    conditions = where.conditions()
    count = sa.select(sa.func.count()).select_from(rows).where(*conditions)
    if cursor is not None:
        value, id_ = _read(cursor, sort, descending)
        place = sa.tuple_(key, rows.c.id)
        bound = sa.tuple_(sa.literal(value, sa.Double), sa.literal(id_))
        conditions = [*conditions, place < bound if descending else place > bound]
    order = [one.desc() if descending else one for one in (key, rows.c.id)]
    query = sa.select(rows).where(*conditions).order_by(*order).limit(limit + 1)
    with reading(store.engine) as connection:
        total = connection.execute(count).scalar_one()
        found = connection.execute(query).all()
    items = [_summary(row) for row in found[:limit]]
    more = len(found) > limit
    return Page(total, items, _write(items[-1], sort, descending) if more else None)


def _summary(row: sa.Row[Any]) -> TrajectorySummary:
    with naming(row.id):
        return TrajectorySummary.of_row(row)


def _write(last: TrajectorySummary, sort: Sort, descending: bool) -> str:
    value = getattr(last, sort)
    text = json.dumps([sort, descending, _LOWEST if value is None else value, last.id])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read(cursor: str, sort: Sort, descending: bool) -> tuple[float, str]:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        of, order, value, id_ = json.loads(text)
        value = float(value)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise InputError(f"cursor {cursor[:80]!r} is not the `next` of a page") from None
    if (of, order) != (sort, descending) or not isinstance(id_, str) or "\0" in id_ or value != value:
        raise InputError("this cursor belongs to another order", hint="start again without a cursor")
    return value, id_.encode("utf-8", "replace").decode()
