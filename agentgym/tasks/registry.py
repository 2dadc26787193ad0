"""The task registry: which tasks are known, in which version, and what validation said of them.

Tables `task` and `task_validation` of the store. A task is versioned by its content digest: registering a changed
directory adds a version, and the newest one answers to the id. The status of a version is that of its latest
validation: `registered` (none yet), `valid`, `rejected` or `error`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa

from agentgym.store.engine import reading, writing
from agentgym.store.filter import is_text, printable
from agentgym.store.migrate import open_engine
from agentgym.store.schema import task as task_table
from agentgym.store.schema import task_validation
from agentgym.tasks.loader import load_task
from agentgym.tasks.model import Task, TaskError
from agentgym.tasks.report import ValidationReport

Status = Literal["registered", "valid", "rejected", "error"]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RegisteredTask:
    """One version of a task. reason: why it is not valid. report: the latest validation, None before the first."""

    id: str
    digest: str
    root: Path
    source_kind: str
    split: str
    language: str
    difficulty: str
    manifest: Mapping[str, Any]
    registered_at: float
    status: Status = "registered"
    reason: str = ""
    report: ValidationReport | None = None

    def load(self) -> Task:
        """The task as it lies on disk; raises TaskError where it is gone or no longer what was registered."""
        task = load_task(self.root)
        if task.digest != self.digest:
            raise TaskError(
                f"task {self.id} in {self.root} changed since it was registered: "
                f"was {self.digest[:19]}, is {task.digest[:19]}",
                hint=f"agentgym tasks register {self.root}",
            )
        return task


class Registry:
    """Open with a store URL or path; safe to use from several processes."""

    def __init__(self, store_url_or_path: str | Path, create: bool = True) -> None:
        self._engine = open_engine(store_url_or_path, create)

    def close(self) -> None:
        self._engine.dispose()

    def register(self, task: Task) -> RegisteredTask:
        """Add this version; where it is known already, only its directory is updated."""
        row = _row(task)
        with writing(self._engine) as connection:
            known = sa.select(task_table.c.digest).where(task_table.c.digest == task.digest)
            if connection.execute(known).first() is None:
                connection.execute(task_table.insert().values(**row))
            else:
                place = {"root": row["root"], "registered_at": row["registered_at"]}
                connection.execute(task_table.update().where(task_table.c.digest == task.digest).values(**place))
        return self.get(task.digest)

    def list(
        self, *, status: Status | None = None, split: str | None = None, source: str | None = None
    ) -> Sequence[RegisteredTask]:
        """The newest version of every task, by id."""
        newest: dict[str, RegisteredTask] = {}
        for entry in self._read(sa.true()):
            newest[entry.id] = entry
        wanted = (entry for _, entry in sorted(newest.items()))
        return [
            entry
            for entry in wanted
            if status in (None, entry.status) and split in (None, entry.split) and source in (None, entry.source_kind)
        ]

    def get(self, id_or_digest: str) -> RegisteredTask:
        """The newest version with this id, or the one version whose digest starts so; raises TaskError."""
        found = self._read(task_table.c.id == id_or_digest)
        if found:
            return found[-1]
        prefix = id_or_digest if id_or_digest.startswith("sha256:") else f"sha256:{id_or_digest}"
        found = self._read(task_table.c.digest.startswith(prefix, autoescape=True)) if len(prefix) > 10 else []
        if len(found) == 1:
            return found[0]
        if found:
            raise TaskError(f"{id_or_digest} fits {len(found)} registered tasks: give more of the digest")
        raise TaskError(f"no registered task is called {id_or_digest}", hint="agentgym tasks list")

    def set_validation(self, report: ValidationReport) -> None:
        """Record a verdict; raises TaskError where the version was never registered."""
        self.get(report.task_digest)
        with writing(self._engine) as connection:
            connection.execute(
                task_validation.insert().values(
                    task_digest=report.task_digest,
                    environment_digest=report.environment_digest,
                    backend=report.backend,
                    status=report.status,
                    reason=report.reason,
                    report=report.model_dump(mode="json"),
                    seconds=report.seconds,
                    created_at=time.time(),
                )
            )

    def status(self, id_or_digest: str) -> Status:
        return self.get(id_or_digest).status

    def _read(self, condition: sa.ColumnElement[bool]) -> Sequence[RegisteredTask]:
        """Matching versions, oldest first, each with its latest validation."""
        latest = (
            sa.select(task_validation.c.task_digest, sa.func.max(task_validation.c.id).label("id"))
            .group_by(task_validation.c.task_digest)
            .subquery()
        )
        query = (
            sa.select(task_table, task_validation.c.status, task_validation.c.reason, task_validation.c.report)
            .select_from(
                task_table.outerjoin(latest, latest.c.task_digest == task_table.c.digest).outerjoin(
                    task_validation, task_validation.c.id == latest.c.id
                )
            )
            .where(condition)
            .order_by(task_table.c.registered_at, task_table.c.digest)
        )
        with reading(self._engine) as connection:
            found = [dict(row) for row in connection.execute(query).mappings()]
        return [_entry(row) for row in found if _sound(row)]


def _sound(row: Mapping[str, Any]) -> bool:
    """False, and a warning, for a row that no writer wrote: it does not take the others with it."""
    damaged = [name for name, value in row.items() if isinstance(value, str) and not is_text(value)]
    if damaged:
        _log.warning(
            "skipped task %s: its %s holds bytes that are no UTF-8; register it again", printable(row["id"]), damaged[0]
        )
    return not damaged


def unregistered(task: Task) -> RegisteredTask:
    """What registering this version would make of it, without doing so."""
    return _entry({**_row(task), "status": None, "reason": None, "report": None})


def _row(task: Task) -> dict[str, Any]:
    return {
        "digest": task.digest,
        "id": task.id,
        "root": str(task.root),
        "source_kind": task.source.get("kind", ""),
        "split": task.split,
        "language": task.language,
        "difficulty": task.difficulty,
        "manifest": summary(task),
        "registered_at": time.time(),
    }


def _entry(row: Mapping[str, Any]) -> RegisteredTask:
    return RegisteredTask(
        id=row["id"],
        digest=row["digest"],
        root=Path(row["root"]),
        source_kind=row["source_kind"],
        split=row["split"],
        language=row["language"],
        difficulty=row["difficulty"],
        manifest=row["manifest"],
        registered_at=row["registered_at"],
        status=row["status"] or "registered",
        reason=row["reason"] or "",
        report=ValidationReport.model_validate(row["report"]) if row["report"] else None,
    )


def summary(task: Task) -> dict[str, Any]:
    """What a listing or a page shows of a task, as JSON."""
    return {
        "instruction": task.instruction,
        "source": dict(task.source),
        "tags": list(task.tags),
        "fail_to_pass": list(task.fail_to_pass),
        "pass_to_pass": list(task.pass_to_pass),
        "test_paths": list(task.test_paths),
        "test_command": list(task.test_command),
        "workdir": task.workdir,
        "image_digest": task.image.digest,
        "agent_timeout_s": task.agent_timeout_s,
        "verifier_timeout_s": task.verifier_timeout_s,
    }
