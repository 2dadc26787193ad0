"""Commands against a server: `agentgym --server URL COMMAND …` asks it over HTTP instead of opening a store here.

What reads (tasks list and show, store ls and show, report) prints the same as at home; what works (rollout, eval, train, replay)
becomes a run of the server, watched to its end. Ctrl-C leaves that run at work and says how to stop it. Every other
command is about this machine, and refuses.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from agentgym.cli.output import emit, stderr
from agentgym.errors import AgentGymError, InputError
from agentgym.store import Step, Trajectory, TrajectoryFilter
from agentgym.store.filter import RECORD_FIELDS
from agentgym.store.records import PolicyKind, Termination

if TYPE_CHECKING:
    from agentgym.client import Client
    from agentgym.server.api.models import Detail, Summary

SERVER_VARIABLE = "AGENTGYM_SERVER"
WHOLE = frozenset({"rollout", "eval", "train", "replay", "report"})
PARTLY = frozenset({"tasks", "store"})
_asked: list[str] = []
_RENAMED = {"terminations": "termination"}
_NOT_ASKED = ("after", "limit", "newest_first")


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
    """A client of the server that was named; the token is `AGENTGYM_TOKEN`."""
    from agentgym.client import Client

    with Client(_asked[0]) as client:
        yield client


def launch(kind: str, config: Mapping[str, Any], *, as_json: bool) -> None:
    """Start a run on the server, watch it, print what its command printed. Raises AgentGymError where it did not succeed."""
    with connected() as client:
        run = client.launch(kind, _plain(config))
        stderr.print(f"run {run.id} on {_asked[0]}: {page_of(f'/runs/{quote(run.id)}')}", highlight=False)
        try:
            for seen in client.watch(run.id):
                run = seen
                solved = "" if seen.success is None else f", {seen.success:.0%} solved"
                stderr.print(f"[dim]{seen.episodes} episodes{solved}[/]", highlight=False)
        except KeyboardInterrupt:
            stderr.print(f"it goes on there; POST /v1/runs/{run.id}/stop ends it", highlight=False)
            raise
        status = run.process.status if run.process else "lost"
        if status != "done":
            tail = "\n".join(client.log(run.id).splitlines()[-15:])
            raise AgentGymError(f"run {run.id} {status} on the server\n{tail}")
        document = client.result(run.id)
        emit(document, f"run {run.id}: {page_of(f'/runs/{quote(run.id)}')}", as_json=as_json)


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
