"""From a request to a process: a directory with its config and log, a row in the store, a worker.

Status: `running` until the worker writes `done`, `failed` or `stopped`; a row whose worker is gone without a word (it
was killed, the machine restarted) reads as `lost`. A stop is SIGTERM to the worker's process group, which ends the
command as Ctrl-C does: sandboxes are removed, finished trajectories stay. A run that is not running can be resumed
under its id: rollouts do what is missing, training goes on from its newest checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from agentgym.server.problem import RequestError
from agentgym.server.runs.commands import RunKind, check
from agentgym.server.settings import ServerSettings
from agentgym.store import NotFoundError
from agentgym.store.engine import reading, writing
from agentgym.store.schema import server_run as runs

Status = Literal["running", "done", "failed", "stopped", "lost"]
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class LaunchedRun:
    """A row of `server_run`. status: with `lost` where the worker is gone. Times are unix seconds."""

    id: str
    kind: RunKind
    config: Mapping[str, Any]
    status: Status
    attempt: int
    directory: Path
    pid: int | None
    exit_code: int | None
    created_at: float
    started_at: float | None
    ended_at: float | None

    def result(self) -> dict[str, Any] | None:
        """The document that its command printed at its end; None before that."""
        try:
            return json.loads((self.directory / "result.json").read_bytes())
        except (OSError, ValueError):
            return None


class Launcher:
    """Starts and stops the runs of one store."""

    def __init__(self, engine: sa.Engine, store: str, settings: ServerSettings) -> None:
        self._engine = engine
        self._store = store
        self._settings = settings

    def launch(self, kind: RunKind, config: Mapping[str, Any], run_id: str | None = None) -> LaunchedRun:
        """Start a run. Raises a 4xx problem where the id is taken or no more runs may be started."""
        run_id = run_id or f"{kind}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        if not ID.fullmatch(run_id):
            raise RequestError(422, f"run id {run_id!r}: letters, digits, dot, dash and underscore, at most 100")
        check(kind, config)
        self._check_room()
        directory = (self._settings.runs_dir / run_id).absolute()
        row = {
            "id": run_id,
            "kind": kind,
            "config": dict(config),
            "status": "running",
            "attempt": 0,
            "directory": str(directory),
            "host": socket.gethostname(),
            "created_at": time.time(),
        }
        try:
            with writing(self._engine) as connection:
                connection.execute(runs.insert(), row)
        except IntegrityError:
            raise RequestError(409, f"there is a run {run_id!r}", hint="resume it, or name another") from None
        return self._start(run_id)

    def resume(self, run_id: str) -> LaunchedRun:
        known = self.get(run_id)
        if known.status == "running":
            raise RequestError(409, f"run {run_id!r} is running")
        self._check_room()
        return self._start(run_id)

    def stop(self, run_id: str) -> LaunchedRun:
        """Ask the run to end. It is `stopped` once its worker has said so."""
        known = self.get(run_id)
        if known.status != "running" or known.pid is None:
            raise RequestError(409, f"run {run_id!r} is not running: {known.status}")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(known.pid, signal.SIGTERM)
        return self.get(run_id)

    def get(self, run_id: str) -> LaunchedRun:
        found = self.find(run_id)
        if found is None:
            raise NotFoundError(f"no launched run {run_id!r}")
        return found

    def find(self, run_id: str) -> LaunchedRun | None:
        found = self._read(runs.c.id == run_id) if "\0" not in run_id else []
        return found[0] if found else None

    def list(self) -> Sequence[LaunchedRun]:
        """Newest first."""
        return self._read(sa.true())

    def _check_room(self) -> None:
        running = sum(one.status == "running" for one in self.list())
        if running >= self._settings.max_running:
            raise RequestError(
                429, f"{running} runs are at work, and this server starts no more", headers={"Retry-After": "60"}
            )

    def _start(self, run_id: str) -> LaunchedRun:
        one = self.get(run_id)
        one.directory.mkdir(parents=True, exist_ok=True)
        started = {"status": "running", "attempt": one.attempt + 1, "started_at": time.time()}
        with writing(self._engine) as connection:
            fresh = {**started, "ended_at": None, "exit_code": None, "pid": None, "host": socket.gethostname()}
            connection.execute(runs.update().where(runs.c.id == run_id).values(**fresh))
        # The worker leads a process group of its own: it outlives the server, and one signal reaches all it started.
        with (one.directory / "worker.log").open("ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "agentgym.server.runs.worker", self._store, run_id],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        with writing(self._engine) as connection:
            identity = {"pid": worker.pid, "pid_started": started_at(worker.pid)}
            connection.execute(runs.update().where(runs.c.id == run_id).values(**identity))
        _children.append(worker)
        return self.get(run_id)

    def _read(self, condition: sa.ColumnElement[bool]) -> Sequence[LaunchedRun]:
        _reap()
        with reading(self._engine) as connection:
            rows = connection.execute(sa.select(runs).where(condition).order_by(runs.c.created_at.desc())).all()
        return [_launched(row) for row in rows]


_children: list[subprocess.Popen[bytes]] = []


def _reap() -> None:
    """Collect workers that have ended, so that none stays a zombie that looks alive."""
    _children[:] = [child for child in _children if child.poll() is None]


def started_at(pid: int) -> str | None:
    """When a process started, in kernel ticks: with its id, the name of exactly one process. None where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return None if fields[0] == "Z" else fields[19]


def _launched(row: sa.Row) -> LaunchedRun:
    status = row.status
    # Another machine's processes cannot be looked at from here: what it wrote last is what is known.
    here = row.host == socket.gethostname()
    if status == "running" and here and row.pid is not None and started_at(row.pid) != row.pid_started:
        status = "lost"
    kept = ("id", "kind", "config", "attempt", "pid", "exit_code", "created_at", "started_at", "ended_at")
    return LaunchedRun(**{name: getattr(row, name) for name in kept}, status=status, directory=Path(row.directory))
