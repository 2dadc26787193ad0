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
from agentgym.store import CorruptError, Store, TrajectoryFilter, TrajectorySummary
from agentgym.store.engine import reading
from agentgym.store.filter import key_literal, printable
from agentgym.store.rows import naming
from agentgym.store.schema import trajectory as rows
from agentgym.store.stream import log_corrupt

Sort = Literal["created_at", "reward", "steps", "calls", "tokens", "action_tokens"]
SORTS: tuple[Sort, ...] = get_args(Sort)
_LOWEST = -1e308


@dataclass(frozen=True, slots=True)
class Page:
    """total: how many match in all. next: the cursor of the page after this one, None at the end. damaged: ids of the rows in
    this page that cannot be read.
    """

    total: int
    items: Sequence[TrajectorySummary]
    next: str | None
    damaged: Sequence[str] = ()


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
        bound = sa.tuple_(sa.literal(value, sa.Double), key_literal(id_))
        conditions = [*conditions, place < bound if descending else place > bound]
    order = [one.desc() if descending else one for one in (key, rows.c.id)]
    query = sa.select(rows).where(*conditions).order_by(*order).limit(limit + 1)
    with reading(store.engine) as connection:
        total = connection.execute(count).scalar_one()
        found = connection.execute(query).all()
    items: list[TrajectorySummary] = []
    damaged: list[str] = []
    for row in found[:limit]:
        try:
            with naming(row.id):
                items.append(TrajectorySummary.of_row(row))
        except CorruptError as error:
            damaged.append(printable(row.id))
            log_corrupt(damaged[-1], error)
    more = len(found) > limit
    return Page(total, items, _write(found[limit - 1], sort, descending) if more else None, damaged)


def _write(last: sa.Row[Any], sort: Sort, descending: bool) -> str:
    """The cursor behind a row, also one that cannot be read."""
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
    try:
        return value, id_.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair, which no cursor of ours has
        return value, id_.encode("utf-8", "replace").decode()
