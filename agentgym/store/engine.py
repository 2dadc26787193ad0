"""One way to connect: SQLite in WAL mode for one machine, any SQLAlchemy URL where several write.

`connect(url)` gives a SQLAlchemy engine; `reading` and `writing` are the only transactions the store uses. On SQLite
a writing transaction takes its lock at once (BEGIN IMMEDIATE), because a lock taken half-way fails without waiting,
and waits up to `BUSY_SECONDS` for other processes. `synchronous=NORMAL` in WAL mode: a killed process loses nothing
and a power cut at most the last trajectories, never the consistency of the file. Text that is no UTF-8 (a torn page,
another program) ends no query on SQLite: its bytes come as lone surrogates, and whoever reads the row refuses it.

Every database error becomes a StoreError that says what to do; constraint violations stay SQLAlchemy's IntegrityError
for the caller that expects them.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from agentgym.store.errors import NotFoundError, StoreError, StoreNotFoundError, StoreUnusableError

BUSY_SECONDS = 120


def store_url(target: str | Path) -> sa.URL:
    """The URL of a store named by URL or by path of an SQLite file."""
    text = str(target)
    try:
        url = sa.make_url(text) if "://" in text else sa.URL.create("sqlite", database=str(Path(text).expanduser()))
    except SQLAlchemyError as error:
        raise StoreNotFoundError(f"{text!r} is neither a path nor a database URL: {error}") from error
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise StoreNotFoundError("an SQLite store in memory cannot be shared or survive", hint="name a file")
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    return url


def connect(url: sa.URL) -> sa.Engine:
    """An engine for `url`, safe to use from several threads and after a fork. Nothing is opened yet."""
    try:
        engine = sa.create_engine(url, pool_pre_ping=url.get_backend_name() != "sqlite")
    except (SQLAlchemyError, ModuleNotFoundError) as error:
        hint = "pip install 'agentgym[postgres]'" if "psycopg" in str(error) else None
        raise StoreUnusableError(f"cannot use the store {_shown(url)}: {error}", hint=hint) from error
    if url.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    # A forked child must not speak on its parent's connections.
    reference = weakref.ref(engine)
    os.register_at_fork(after_in_child=lambda: (alive := reference()) and alive.dispose(close=False))
    return engine


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction that only reads."""
    with _translated(engine), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction that writes: committed whole at the end, or not at all."""
    with _translated(engine), engine.connect() as connection:
        connection = connection.execution_options(agentgym_write=True)
        with connection.begin():
            yield connection


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not begin transactions of its own
    connection.text_factory = _text
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout = {BUSY_SECONDS * 1000}",
        "journal_mode = WAL",
        "synchronous = NORMAL",
        "foreign_keys = ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogateescape")


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("agentgym_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def _translated(engine: sa.Engine) -> Iterator[None]:
    try:
        yield
    except IntegrityError:
        raise
    except UnicodeEncodeError as error:
        raise NotFoundError(
            f"there is nothing named {error.object!r:.80}: no database holds half a surrogate pair"
        ) from error
    except (DBAPIError, OSError) as error:
        reason = str(error.orig) if isinstance(error, DBAPIError) else str(error)
        kind, hint = _judge(reason)
        raise kind(f"store {_shown(engine.url)}: {reason}", hint=hint) from error


def _judge(reason: str) -> tuple[type[StoreError], str | None]:
    """Whose fault a refusal of the database is, and what mends it."""
    lowered = reason.lower()
    unusable = {
        "disk is full": "free some space and run the command again; what was stored before is intact",
        "no space left": "free some space and run the command again; what was stored before is intact",
        "disk i/o error": "the disk refused the write (full, over quota or failing); what was stored before is intact",
        "unable to open database file": "check that the directory exists and is writable",
        "readonly database": "check the permissions of the file and its directory",
        "database is locked": f"another process held the store for more than {BUSY_SECONDS} s",
        "connection refused": "start the database server, or check host and port",
    }
    named_wrongly = {"not a database": "the file is something else; name another path"}
    failed = {"malformed": "the file is damaged; `agentgym store check` lists what can still be read"}
    kinds = {StoreUnusableError: unusable, StoreNotFoundError: named_wrongly, StoreError: failed}
    for kind, hints in kinds.items():
        for sign, hint in hints.items():
            if sign in lowered:
                return kind, hint
    return StoreError, None


def _shown(url: sa.URL) -> str:
    return url.render_as_string(hide_password=True)
