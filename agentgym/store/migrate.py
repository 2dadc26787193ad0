"""Bring a store to the schema this code knows, or say why not.

The common case costs one query and no import of Alembic. Migrations run under a lock of the database itself, so that
many processes may open a new store at once. A store written by a newer agentgym is never touched.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import sqlalchemy as sa

from agentgym.store.engine import connect, reading, store_url, writing
from agentgym.store.errors import StoreMissingError, StoreNotFoundError, StoreUnusableError
from agentgym.store.schema import KNOWN_SCHEMAS, SCHEMA_VERSION

MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK_KEY = 0x6167656E74  # "agent"


def open_engine(url: str | Path, create: bool = True) -> sa.Engine:
    """An engine for the store at an SQLite path or SQLAlchemy URL, its tables created or upgraded.

    Raises StoreError where it cannot be opened, was written by a newer agentgym, or is missing and `create` is False.
    """
    target = store_url(url)
    if target.get_backend_name() == "sqlite":
        path = Path(str(target.database))
        if path.is_dir():
            raise StoreNotFoundError(f"{path} is a directory, not a store", hint=f"name a file: {path / 'agentgym.db'}")
        if not create and (not path.exists() or path.stat().st_size == 0):
            raise StoreMissingError(
                f"there is no store at {path}",
                hint="run `agentgym rollout`, or name another with --store or AGENTGYM_STORE",
            )
        _refuse_foreign(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnusableError(f"cannot make the directory of the store {path}: {error}") from error
    engine = connect(target)
    try:
        migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def current_revision(engine: sa.Engine) -> str | None:
    """The schema revision of a store, None where it is empty."""
    with reading(engine) as connection:
        return _revision(connection)


def migrate(engine: sa.Engine) -> None:
    """Create or upgrade the tables. Raises StoreError for a newer schema, which is left as it is."""
    if current_revision(engine) == SCHEMA_VERSION:
        return
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        revision = _revision(connection)
        if revision == SCHEMA_VERSION:
            return
        refuse_newer(revision)
        if revision is None and engine.dialect.name == "sqlite" and sa.inspect(connection).get_table_names():
            raise _foreign(str(engine.url.database))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _refuse_foreign(path: Path) -> None:
    """Raise StoreNotFoundError for a file of something else, without a byte of it or beside it being written.

    Opening a database the ordinary way would switch it to WAL mode. `immutable` takes no lock and makes no file; what
    it cannot see (tables still in a write-ahead log) is judged again under the lock of the migration.
    """
    if not path.is_file() or path.stat().st_size == 0:
        return
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if found >= {"alembic_version", "trajectory"}:
                for (revision,) in connection.execute("SELECT version_num FROM alembic_version"):
                    refuse_newer(revision)
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error):
            raise StoreNotFoundError(
                f"{path} is not a database", hint="the file is something else; name another path"
            ) from error
        return  # another process is writing, or a page is torn: the ordinary way says which
    if found and not found >= {"alembic_version", "trajectory"}:
        raise _foreign(str(path))


def _foreign(path: str) -> StoreNotFoundError:
    return StoreNotFoundError(f"{path} is an SQLite database of something else, not a store", hint="name another path")


def refuse_newer(revision: str | None) -> None:
    """Raise StoreError where `revision` is not one this code can read or upgrade."""
    if revision is not None and revision not in KNOWN_SCHEMAS:
        raise StoreUnusableError(
            f"store is from a newer agentgym (schema {revision}, this one knows {SCHEMA_VERSION})",
            hint="upgrade agentgym; nothing in the store was changed",
        )


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
