"""Read many trajectories: page by key, one short transaction a page, and past whatever is damaged.

Pages are ordered by (created_at, id). A row that holds what no writer put there is skipped. Where the database itself
cannot read a page of blobs (a torn file), its rows are read one by one, so that only the damaged ones are lost. Each of
those rows, and each blob whose bytes are wrong, goes to `on_corrupt` with its id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import sqlalchemy as sa

from agentgym.store.engine import reading
from agentgym.store.errors import CorruptError, StoreError
from agentgym.store.filter import TrajectoryFilter, TrajectorySummary, is_text, printable
from agentgym.store.rows import naming
from agentgym.store.schema import trajectory as rows
from agentgym.store.schema import trajectory_body as bodies

SUMMARY_PAGE = 512
BODY_PAGE = 16
OnCorrupt = Callable[[str, CorruptError], None]
"""Called with the id and the reason of each trajectory that cannot be read."""

_Item = TypeVar("_Item")
_Columns = tuple[sa.Column[bytes], ...]
_log = logging.getLogger(__name__)


def log_corrupt(trajectory_id: str, error: CorruptError) -> None:
    """The default `on_corrupt`: a warning, and on to the next trajectory."""
    _log.warning("skipped %s", error)


def stream(
    engine: sa.Engine,
    where: TrajectoryFilter,
    blobs: _Columns,
    decode: Callable[..., _Item],
    on_corrupt: OnCorrupt,
) -> Iterator[_Item]:
    """`decode(summary, *blobs)` of each matching trajectory; `blobs` are columns of `trajectory_body`."""
    for page, contents in _pages(engine, where, blobs):
        for row in page:
            try:
                with naming(row.id):
                    item = decode(TrajectorySummary.of_row(row), *_present(contents, row.id) if blobs else ())
            except CorruptError as error:
                on_corrupt(printable(row.id), error)
            else:
                yield item


def read_blobs(engine: sa.Engine, trajectory_id: str, blobs: _Columns) -> Sequence[bytes]:
    """The blobs of one trajectory. Raises CorruptError where they are missing or the database cannot read them."""
    try:
        with reading(engine) as connection:
            return _present(_contents(connection, [trajectory_id], blobs), trajectory_id)
    except CorruptError:
        raise
    except StoreError as error:
        raise CorruptError(str(error)) from error


def _pages(
    engine: sa.Engine, where: TrajectoryFilter, blobs: _Columns
) -> Iterator[tuple[Sequence[sa.Row[Any]], dict[str, Any]]]:
    """Rows of the trajectory table and, by id, their blobs or the CorruptError that stands for them."""
    left = where.limit
    while left is None or left > 0:
        size = BODY_PAGE if blobs else SUMMARY_PAGE
        size = size if left is None else min(size, left)
        part = sa.select(rows).where(*where.conditions()).order_by(*where.order()).limit(size)
        try:
            with reading(engine) as connection:
                page = connection.execute(part).all()
                contents = _contents(connection, _ids(page), blobs)
        except StoreError:
            with reading(engine) as connection:
                page = connection.execute(part).all()
            contents = _one_by_one(engine, _ids(page), blobs)
        yield page, contents
        if len(page) < size:
            return
        where = replace(where, after=(page[-1].created_at, page[-1].id))
        left = None if left is None else left - size


def _ids(page: Sequence[sa.Row[Any]]) -> list[str]:
    """Of the rows that can be read at all."""
    return [row.id for row in page if isinstance(row.id, str) and is_text(row.id)]


def _contents(connection: sa.Connection, ids: list[str], blobs: _Columns) -> dict[str, Any]:
    if not blobs:
        return {}
    query = sa.select(bodies.c.trajectory_id, *blobs).where(bodies.c.trajectory_id.in_(ids))
    return {row[0]: row[1:] for row in connection.execute(query)}


def _one_by_one(engine: sa.Engine, ids: list[str], blobs: _Columns) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for trajectory_id in ids:
        try:
            found[trajectory_id] = read_blobs(engine, trajectory_id, blobs)
        except CorruptError as error:
            found[trajectory_id] = error
    return found


def _present(contents: dict[str, Any], trajectory_id: str) -> Sequence[bytes]:
    found = contents.get(trajectory_id)
    if found is None:
        raise CorruptError("it has no body")
    if isinstance(found, CorruptError):
        raise found
    return found
