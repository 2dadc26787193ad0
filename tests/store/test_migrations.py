"""Opening: new, known, newer and foreign databases."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command, op
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from agentgym.store import Store, StoreError, Trajectory, TrajectoryFilter
from agentgym.store.check import check_store
from agentgym.store.engine import connect, writing
from agentgym.store.migrate import MIGRATIONS, current_revision
from agentgym.store.rows import EncodedTrajectory, encode_trajectory
from agentgym.store.schema import SCHEMA_VERSION, metadata, server_run, server_token
from agentgym.tasks.registry import Registry


def test_the_code_knows_the_newest_migration() -> None:
    script = ScriptDirectory(str(MIGRATIONS))
    assert script.get_heads() == [SCHEMA_VERSION]


def test_migrations_build_exactly_the_tables_of_the_schema(store) -> None:
    with store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    assert current_revision(store.engine) == SCHEMA_VERSION


RELEASED = Path(__file__).parent / "released"
REVISIONS = [script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()]


def test_a_store_of_every_earlier_release_is_kept_to_upgrade_from() -> None:
    assert {path.stem for path in RELEASED.glob("*.sql")} == set(REVISIONS) - {SCHEMA_VERSION}


@pytest.mark.parametrize("revision", sorted(set(REVISIONS) - {SCHEMA_VERSION}))
def test_a_released_store_is_upgraded_and_keeps_everything(
    tmp_path: Path, revision: str, make_call, make_trajectory
) -> None:
    """Each file is the dump of a store that the release wrote."""
    old = sqlite3.connect(tmp_path / "old.db")
    old.executescript((RELEASED / f"{revision}.sql").read_text())
    old.close()
    calls = make_call([1, 2], [3, 4]), make_call([1, 9], [5], event="compacted")
    wanted = [
        make_trajectory(id="a" * 32, created_at=1.5, split="train"),
        make_trajectory(*calls, id="b" * 32, steps=(), created_at=2.5, parent_id="a" * 32, branch_step=1, reward=None),
    ]
    with Store.open(tmp_path / "old.db") as store:
        assert current_revision(store.engine) == SCHEMA_VERSION
        with store.engine.connect() as connection:
            assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        for one in wanted:
            assert store.add(one) is False  # it is there, equal to the last bit
        assert store.get_document("sha256:harness") == {"profile": {"name": "tiny"}}
        assert [one.id for one in store.query(TrajectoryFilter(parent_id="a" * 32))] == ["b" * 32]
        report = check_store(store)
        assert report.unsealed == 2
        (fault,) = report.faults  # nobody asked then how a child goes on
        assert fault.trajectory_id == "b" * 32
        assert "its first prompt is not the one" in fault.message
    registry = Registry(tmp_path / "old.db")
    assert (registry.get("tutorial").status, registry.get("tutorial").manifest) == ("valid", {"a": 1})
    registry.close()


def test_the_tables_that_a_server_made_beside_the_schema_stay_with_what_they_hold(tmp_path: Path) -> None:
    old = sqlite3.connect(tmp_path / "old.db")
    old.executescript((RELEASED / "0003.sql").read_text())
    old.close()
    with Store.open(tmp_path / "old.db") as store, store.engine.connect() as connection:
        assert connection.execute(sa.select(server_token.c.name, server_token.c.scope)).all() == [("ci", "run")]
        assert connection.execute(sa.select(server_run.c.config)).scalar() == {"tasks": ["all"]}
        assert store.metrics("train") == {1: {"policy_loss": 0.5}}


def store_of_revision(url: str, revision: str, trajectory: Trajectory) -> EncodedTrajectory:
    """A store as that revision left it, with one trajectory."""
    engine = connect(sa.make_url(url))
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    encoded = encode_trajectory(trajectory)
    with writing(engine) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        for name, values in {"trajectory": encoded.row, "trajectory_body": encoded.body}.items():
            table = sa.Table(name, sa.MetaData(), autoload_with=connection)
            connection.execute(table.insert(), {key: values[key] for key in values if key in table.c})
    engine.dispose()
    return encoded


@pytest.mark.parametrize("revision", sorted(set(REVISIONS) - {SCHEMA_VERSION}))
def test_both_databases_are_upgraded_from_every_revision_with_their_rows(
    store_url: str, revision: str, make_trajectory
) -> None:
    encoded = store_of_revision(store_url, revision, make_trajectory(id="kept"))
    with Store.open(store_url) as store:
        assert store.add(make_trajectory(id="kept", created_at=encoded.row["created_at"])) is False
        assert current_revision(store.engine) == SCHEMA_VERSION
        assert check_store(store).ok


def test_a_migration_that_is_killed_half_way_leaves_the_old_store(store_url: str, make_trajectory) -> None:
    store_of_revision(store_url, REVISIONS[-1], make_trajectory(id="kept"))

    def die() -> None:
        create = op.create_index

        def create_and_die(*arguments: Any, **options: Any) -> None:
            create(*arguments, **options)
            os.kill(os.getpid(), signal.SIGKILL)

        op.create_index = create_and_die
        Store.open(store_url)

    process = multiprocessing.get_context("fork").Process(target=die)
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    engine = connect(sa.make_url(store_url))
    assert current_revision(engine) == REVISIONS[-1]
    engine.dispose()
    with Store.open(store_url) as store:
        assert current_revision(store.engine) == SCHEMA_VERSION
        assert [one.id for one in store.query()] == ["kept"]
        assert check_store(store).ok


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


def test_an_empty_file_is_no_store_to_read_and_stays_empty(tmp_path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with pytest.raises(StoreError, match="there is no store"):
        Store.open(path, create=False)
    assert path.read_bytes() == b""


@pytest.mark.parametrize("tables", [["cookies"], ["cookies", "alembic_version"], ["alembic_version"]])
def test_a_foreign_database_is_refused_without_a_byte_of_it_being_changed(tmp_path: Path, tables: list[str]) -> None:
    foreign = tmp_path / "other.db"
    with sqlite3.connect(foreign) as connection:
        for name in tables:
            connection.execute(f"CREATE TABLE {name} (version_num TEXT)")
            connection.execute(f"INSERT INTO {name} VALUES ('5f2a')")
    connection.close()
    before = foreign.read_bytes()
    with pytest.raises(StoreError, match="something else, not a store"):
        Store.open(foreign)
    assert foreign.read_bytes() == before
    assert list(tmp_path.iterdir()) == [foreign]


def test_a_foreign_database_whose_tables_are_still_in_its_log_is_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "other.db"
    writer = sqlite3.connect(foreign)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE cookies (name TEXT)")
    writer.commit()
    with pytest.raises(StoreError, match="something else, not a store"):
        Store.open(foreign)
    assert [name for (name,) in writer.execute("SELECT name FROM sqlite_master")] == ["cookies"]


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
