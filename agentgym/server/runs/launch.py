"""From a request to a process: a directory with its config and log, a row in the store, a worker.

Status: `running` until the worker writes `done`, `failed` or `stopped`; a row whose worker is gone without a word (it
was killed, the machine restarted) reads as `lost`. A stop is SIGTERM to the worker's process group, which ends the
command as Ctrl-C does: sandboxes are removed, finished trajectories stay. A run that is not running can be resumed
under its id: rollouts do what is missing, training goes on from its newest checkpoint.

Several processes, and servers on several machines, may share a store. Whether a run may start is decided in a transaction that
has the table to itself, so none starts twice and no more than allowed; a run is stopped by a server of the machine it is on.
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from agentgym.errors import MachineError
from agentgym.server.problem import RequestError
from agentgym.server.runs.commands import RunKind, check
from agentgym.server.settings import ServerSettings
from agentgym.store import NotFoundError
from agentgym.store.engine import reading, writing
from agentgym.store.schema import server_run as runs

Status = Literal["running", "done", "failed", "stopped", "lost"]
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
STARTING_SECONDS = 60.0
"""A run without a process after that will get none: the server that was to start it is gone."""


@dataclass(frozen=True, slots=True)
class LaunchedRun:
    """A row of `server_run`. status: with `lost` where the worker is gone. host: whose process it is. Times are unix seconds."""

    id: str
    kind: RunKind
    config: Mapping[str, Any]
    status: Status
    attempt: int
    directory: Path
    host: str
    pid: int | None
    exit_code: int | None
    created_at: float
    started_at: float | None
    ended_at: float | None

    @property
    def is_here(self) -> bool:
        """Whether its process is one of this machine."""
        return self.host == socket.gethostname()

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
        directory = (self._settings.runs_dir / run_id).absolute()
        now = time.time()
        row = {
            "id": run_id,
            "kind": kind,
            "config": dict(config),
            "status": "running",
            "attempt": 1,
            "directory": str(directory),
            "host": socket.gethostname(),
            "created_at": now,
            "started_at": now,
        }
        try:
            with self._deciding() as connection:
                self._check_room(connection)
                connection.execute(runs.insert(), row)
        except IntegrityError:
            raise RequestError(409, f"there is a run {run_id!r}", hint="resume it, or name another") from None
        return self._start(run_id, directory)

    def resume(self, run_id: str) -> LaunchedRun:
        self.get(run_id)
        with self._deciding() as connection:
            [known] = _read(connection, runs.c.id == run_id)
            if known.status == "running":
                raise RequestError(409, f"run {run_id!r} is running")
            self._check_room(connection)
            started = {"status": "running", "attempt": known.attempt + 1, "started_at": time.time()}
            fresh = {**started, "ended_at": None, "exit_code": None, "pid": None, "host": socket.gethostname()}
            connection.execute(runs.update().where(runs.c.id == run_id).values(**fresh))
        return self._start(run_id, known.directory)

    def stop(self, run_id: str) -> LaunchedRun:
        """Ask the run to end. It is `stopped` once its worker has said so."""
        known = self.get(run_id)
        if known.status != "running":
            raise RequestError(409, f"run {run_id!r} is not running: {known.status}")
        if not known.is_here:
            raise RequestError(409, f"run {run_id!r} is a process of {known.host}", hint="ask a server of that machine")
        if known.pid is None:
            raise RequestError(409, f"run {run_id!r} is being started", headers={"Retry-After": "1"})
        with contextlib.suppress(ProcessLookupError):
            os.killpg(known.pid, signal.SIGTERM)
        return self.get(run_id)

    def get(self, run_id: str) -> LaunchedRun:
        found = self.find(run_id)
        if found is None:
            raise NotFoundError(f"no launched run {run_id!r}")
        return found

    def find(self, run_id: str) -> LaunchedRun | None:
        found = self._all(runs.c.id == run_id) if "\0" not in run_id else []
        return found[0] if found else None

    def list(self) -> Sequence[LaunchedRun]:
        """Newest first."""
        return self._all(sa.true())

    @contextlib.contextmanager
    def _deciding(self) -> Iterator[sa.Connection]:
        """A transaction beside which no other starts a run."""
        with writing(self._engine) as connection:
            if connection.dialect.name == "postgresql":  # SQLite has one writer at a time anyway
                connection.execute(sa.text(f"LOCK TABLE {runs.name} IN SHARE ROW EXCLUSIVE MODE"))
            yield connection

    def _check_room(self, connection: sa.Connection) -> None:
        running = sum(one.is_here and one.status == "running" for one in _read(connection, runs.c.status == "running"))
        if running >= self._settings.max_running:
            raise RequestError(
                429, f"{running} runs are at work, and this server starts no more", headers={"Retry-After": "60"}
            )

    def _start(self, run_id: str, directory: Path) -> LaunchedRun:
        """Start the worker. It leads a process group: it outlives the server, and one signal reaches all it started."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with (directory / "worker.log").open("ab") as log:
                worker = subprocess.Popen(
                    [sys.executable, "-m", "agentgym.server.runs.worker", self._store, run_id],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        except OSError as error:
            self._write(run_id, {"status": "failed", "ended_at": time.time()})
            raise MachineError(f"run {run_id!r} could not be started: {error}") from error
        _children.append(worker)
        self._write(run_id, {"pid": worker.pid, "pid_started": started_at(worker.pid)})
        return self.get(run_id)

    def _write(self, run_id: str, values: Mapping[str, Any]) -> None:
        with writing(self._engine) as connection:
            connection.execute(runs.update().where(runs.c.id == run_id).values(**values))

    def _all(self, condition: sa.ColumnElement[bool]) -> Sequence[LaunchedRun]:
        _reap()
        with reading(self._engine) as connection:
            return _read(connection, condition)


def _read(connection: sa.Connection, condition: sa.ColumnElement[bool]) -> Sequence[LaunchedRun]:
    """Newest first."""
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
    kept = (
        "id",
        "kind",
        "config",
        "status",
        "attempt",
        "host",
        "pid",
        "exit_code",
        "created_at",
        "started_at",
        "ended_at",
    )
    one = LaunchedRun(**{name: getattr(row, name) for name in kept}, directory=Path(row.directory))
    # Another machine's processes cannot be looked at from here: what it wrote last is what is known.
    return replace(one, status="lost") if one.status == "running" and one.is_here and _is_gone(row) else one


def _is_gone(row: sa.Row) -> bool:
    if row.pid is None:
        return time.time() - (row.started_at or row.created_at) > STARTING_SECONDS
    return started_at(row.pid) != row.pid_started
