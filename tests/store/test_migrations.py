"""Opening: new, known, newer and foreign databases."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from agentgym.store import Store, StoreError
from agentgym.store.migrate import MIGRATIONS, current_revision
from agentgym.store.schema import SCHEMA_VERSION, metadata


def test_the_code_knows_the_newest_migration() -> None:
    script = ScriptDirectory(str(MIGRATIONS))
    assert script.get_heads() == [SCHEMA_VERSION]


def test_migrations_build_exactly_the_tables_of_the_schema(store) -> None:
    with store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    assert current_revision(store.engine) == SCHEMA_VERSION


def test_a_newer_store_is_refused_and_left_alone(store, store_url, make_trajectory) -> None:
    store.add(make_trajectory(id="kept"))
    with store.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0099'"))
    with pytest.raises(StoreError, match=rf"newer agentgym \(schema 0099, this one knows {SCHEMA_VERSION}\)"):
        Store.open(store_url)
    assert store.get("kept").id == "kept"
    assert current_revision(store.engine) == "0099"


def test_files_that_are_no_store_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, just some notes\n" * 100)
    with pytest.raises(StoreError, match="not a database"):
        Store.open(text)
    assert text.read_text().startswith("not a database")

    foreign = tmp_path / "other.db"
    engine = sa.create_engine(f"sqlite:///{foreign}")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE cookies (name TEXT)")
    with pytest.raises(StoreError, match="something else, not a store"):
        Store.open(foreign)
    assert sa.inspect(engine).get_table_names() == ["cookies"]


def test_a_store_that_must_exist_and_does_not(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store at"):
        Store.open(tmp_path / "none.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_targets_that_cannot_be_opened_say_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot make the directory"):
        Store.open(tmp_path / "file" / "store.db")
    with pytest.raises(StoreError, match="is a directory, not a store"):
        Store.open(tmp_path)
    with pytest.raises(StoreError, match="in memory"):
        Store.open("sqlite://")
    with pytest.raises(StoreError, match="cannot use the store"):
        Store.open("nosuchdatabase://host/x")
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with pytest.raises(StoreError) as refused:
        Store.open("postgresql://user:secret@127.0.0.1:9/x")
    assert "secret" not in str(refused.value)


def test_many_processes_may_open_a_new_store_at_once(store_url) -> None:
    forked = multiprocessing.get_context("fork")
    processes = [forked.Process(target=lambda: Store.open(store_url).close()) for _ in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * 8
    with Store.open(store_url, create=False) as store:
        assert store.count() == 0
