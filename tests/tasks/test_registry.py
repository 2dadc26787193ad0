"""The registry keeps every version of a task and the latest word of validation on each."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from agentgym.tasks import Registry, TaskError, ValidationReport, load_task
from agentgym.tasks.survival import insert, survival_report


@pytest.fixture
def registry(tmp_path):
    registry = Registry(tmp_path / "store.sqlite")
    yield registry
    registry.close()


def report(task, status: str, reason: str = "") -> ValidationReport:
    return ValidationReport(
        task_id=task.id,
        task_digest=task.digest,
        environment_digest="sha256:e",
        backend="local",
        status=status,
        reason=reason,
    )


def test_a_registered_task_can_be_found_by_id_and_by_digest(registry, directory):
    task = load_task(directory)
    registry.register(task)

    assert registry.get("sample").digest == registry.get(task.digest[:20]).digest == task.digest
    assert registry.status("sample") == "registered"
    assert registry.get("sample").load() == task


def test_the_latest_validation_decides_the_status(registry, directory):
    task = load_task(directory)
    registry.register(task)
    registry.set_validation(report(task, "error", "the engine died"))
    registry.set_validation(report(task, "valid"))

    assert (registry.status("sample"), registry.get("sample").reason) == ("valid", "")
    assert [entry.id for entry in registry.list(status="valid")] == ["sample"]
    assert not registry.list(status="rejected")


def test_a_changed_directory_is_a_new_version_that_starts_unvalidated(registry, directory):
    first = load_task(directory)
    registry.register(first)
    registry.set_validation(report(first, "valid"))
    (directory / "instruction.md").write_text("Mend it well.\n")
    registry.register(load_task(directory))

    assert registry.status("sample") == "registered"
    assert registry.status(first.digest) == "valid"
    assert len(registry.list()) == 1
    with pytest.raises(TaskError, match="changed since it was registered"):
        registry.get(first.digest).load()


def test_registering_twice_keeps_the_verdict(registry, directory):
    task = load_task(directory)
    registry.register(task)
    registry.set_validation(report(task, "valid"))
    registry.register(task)

    assert registry.status("sample") == "valid"


def test_what_is_not_registered_is_an_error(registry, directory):
    with pytest.raises(TaskError, match="no registered task is called"):
        registry.get("nothing")
    with pytest.raises(TaskError):
        registry.set_validation(report(load_task(directory), "valid"))


def test_the_survival_report_counts_sources_and_names_reasons(registry, directory):
    task = load_task(directory)
    registry.register(task)
    registry.set_validation(report(task, "rejected", "it | leaks\nmore"))

    text = survival_report(registry.list())

    assert "| files | 0 | 1 | 0 | 0 |" in text
    assert "| sample | rejected | train |" in text
    assert "it \\| leaks |" in text


def test_a_report_replaces_the_one_before():
    once = insert("# Title\n", "first\n")

    assert insert(once, "second\n") == once.replace("first", "second")


def test_a_row_that_is_no_text_does_not_take_the_others_with_it(registry, directory, tmp_path, caplog):
    registry.register(load_task(directory))
    with contextlib.closing(sqlite3.connect(tmp_path / "store.sqlite")) as raw:
        columns = "root, source_kind, split, language, difficulty, manifest, registered_at"
        raw.execute(f"INSERT INTO task SELECT 'd', CAST(x'62ff' AS TEXT), {columns} FROM task")
        raw.commit()

    assert [entry.id for entry in registry.list()] == ["sample"]
    assert "skipped task b\\xff: its id holds bytes that are no UTF-8" in caplog.text
