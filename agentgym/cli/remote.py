"""Commands against a server: `agentgym --server URL COMMAND …` asks it over HTTP instead of opening a store here.

What reads (tasks list and show, store ls, show and export, report) gives the same as at home; what works (rollout, eval, train,
replay, store check) becomes a run of the server, watched to its end: its document is printed and its exit code is the command's.
Ctrl-C leaves that run at work and says how to stop it (`agentgym runs stop`). Every other command is about this machine, and
refuses.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from agentgym.cli.output import counted, emit, stderr
from agentgym.errors import AgentGymError, InputError
from agentgym.store import Step, Trajectory, TrajectoryFilter
from agentgym.store.filter import RECORD_FIELDS
from agentgym.store.records import PolicyKind, Termination

if TYPE_CHECKING:
    from agentgym.client import Client
    from agentgym.server.api.models import Detail, Summary
    from agentgym.server.api.runs import Run

SERVER_VARIABLE = "AGENTGYM_SERVER"
WHOLE = frozenset({"rollout", "eval", "train", "replay", "report", "runs"})
PARTLY = frozenset({"tasks", "store"})
_asked: list[str] = []
_RENAMED = {"terminations": "termination"}
_NOT_ASKED = ("after", "limit", "newest_first")
_MOST_SHOWN = 10_000


class RunFailed(AgentGymError):
    """A run of the server ended as its command would have ended here."""

    def __init__(self, message: str, exit_code: int | None, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code if exit_code in (1, 2, 3) else 1


def choose(url: str | None, command: str | None) -> None:
    """Take the server of the command line. Raises InputError where the command is about this machine."""
    _asked[:] = [] if url is None else [url]
    if url is not None and command not in WHOLE | PARTLY:
        raise _refusal(str(command))


def only(group: str, command: str | None, allowed: frozenset[str]) -> None:
    """Raises InputError where a server is named and this command of a group is about this machine."""
    if _asked and command not in allowed:
        raise _refusal(f"{group} {command}")


def asked() -> bool:
    """Whether the command line names a server."""
    return bool(_asked)


@contextlib.contextmanager
def connected() -> Iterator[Client]:
    """A client of the server that was named; the token is `AGENTGYM_TOKEN`. Raises InputError where none was."""
    from agentgym.client import Client

    if not _asked:
        raise InputError("which server?", hint=f"agentgym --server http://127.0.0.1:8000 …, or {SERVER_VARIABLE}")
    with Client(_asked[0]) as client:
        yield client


def launch(kind: str, config: Mapping[str, Any], *, as_json: bool) -> None:
    """Start a run on the server and follow it to its end. Raises AgentGymError where it did not succeed."""
    config, name = _named(kind, _plain(config))
    with connected() as client:
        follow(client, client.launch(kind, config, run_id=name), as_json=as_json)


def follow(client: Client, run: Run, *, as_json: bool) -> None:
    """Say how a run gets on, and at its end print what its command printed. Raises RunFailed where it did not succeed."""
    stderr.print(f"run {run.id}: {page_of(f'/runs/{quote(run.id)}')}", highlight=False)
    try:
        for seen in client.watch(run.id):
            run = seen
            solved = "" if run.success is None else f", {run.success:.0%} solved"
            stderr.print(f"[dim]{counted(run.episodes, 'episode')}{solved}[/]", highlight=False)
    except KeyboardInterrupt:
        stderr.print(f"it goes on there; agentgym --server {_asked[0]} runs stop {run.id}", highlight=False)
        raise
    process = run.process
    document = _result(client, run)
    failed = process is None or process.status != "done"
    if failed and (document is None or "error" in document):
        error = (document or {}).get("error") or {}
        tail = "\n".join(client.log(run.id).splitlines()[-15:])
        status, code = (process.status, process.exit_code) if process else ("lost", None)
        said = error.get("message") or f"{status} on the server\n{tail}"
        raise RunFailed(f"run {run.id}: {said}", code, hint=error.get("hint"))
    if document is not None:
        emit(document, _shown(client, run, document), as_json=as_json)
    if failed:
        raise RunFailed(f"run {run.id} ended with exit code {process.exit_code if process else None}", 1)


def _result(client: Client, run: Run) -> dict[str, Any] | None:
    """The document of a run's command; None where it got to none."""
    from agentgym.client import ServerError

    try:
        return client.result(run.id) if run.process else None
    except ServerError as error:
        if error.status == 404:
            return None
        raise


def _shown(client: Client, run: Run, document: Mapping[str, Any]) -> RenderableType:
    """The episodes of a run in a table; else the facts of its document that fit a line."""
    page = f"more: {page_of(f'/runs/{quote(run.id)}')}"
    if run.episodes:
        from agentgym.cli.rollout import summary_table

        found = list(islice(client.trajectories(run_id=run.id), _MOST_SHOWN))
        return Group(summary_table(found, f"run {run.id}"), page)
    facts = Table(box=None, show_header=False, pad_edge=False)
    for name, value in document.items():
        if isinstance(value, (str, int, float)):
            facts.add_row(escape(name.replace("_", " ")), escape(str(value)))
    return Group(facts, page)


def _named(kind: str, config: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """A config without the name of the run to be, and that name; offline, `run_id` is no name but whose episodes are read."""
    from agentgym.server.runs.commands import reads_stored_episodes

    keys = ("name",) if reads_stored_episodes(kind, config) else ("run_id", "name")  # type: ignore[arg-type]
    if kind not in ("rollout", "eval", "train"):
        return config, None
    rest = {key: value for key, value in config.items() if key not in keys}
    return rest, next((config[key] for key in keys if config.get(key)), None)


def page_of(path: str) -> str:
    """The address of a page of the server."""
    return f"{_asked[0].rstrip('/')}{path}"


def query_of(where: TrajectoryFilter) -> dict[str, Any]:
    """A filter as the API's query parameters."""
    found: dict[str, Any] = {}
    for field in fields(where):
        value = getattr(where, field.name)
        if field.name not in _NOT_ASKED and value != field.default:  # a zero and a no are asked for
            found[_RENAMED.get(field.name, field.name)] = _plain(value)
    return found


def record_of(summary: Summary, detail: Detail) -> Trajectory:
    """What a server tells of a trajectory, as a record without its calls."""
    columns = {name: getattr(summary, name) for name in RECORD_FIELDS}
    columns |= {"policy_kind": PolicyKind(summary.policy_kind), "termination": Termination(summary.termination)}
    told = {
        name: getattr(detail, name) for name in ("error", "reward_vector", "verdicts", "patch", "timings", "metadata")
    }
    return Trajectory(**columns, **told, calls=(), steps=tuple(Step(**step.model_dump()) for step in detail.steps))


def _plain(value: Any) -> Any:
    """As JSON takes it: paths and names as text."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, Enum):
        return value.value
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _refusal(command: str) -> InputError:
    return InputError(
        f"`agentgym {command}` is about this machine, and no server can be asked for it",
        hint="leave out --server, or run it on the server's machine",
    )
