"""`agentgym runs`: what a server was asked to do. `rollout`, `train`, … with `--server` start runs; these look after them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from agentgym.cli import remote
from agentgym.cli.options import JSON
from agentgym.cli.output import emit

if TYPE_CHECKING:
    from agentgym.server.api.runs import Run

RUN = Annotated[str, typer.Argument(metavar="RUN", help="Id of a run.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Runs of the server that --server names.", no_args_is_help=True)
    group.command("ls")(ls)
    group.command("show")(show)
    group.command("watch")(watch)
    group.command("log")(log)
    group.command("stop")(stop)
    group.command("resume")(resume)
    app.add_typer(group, name="runs")


def ls(as_json: JSON = False) -> None:
    """List runs, newest first: those that were launched there, and others with trajectories in its store."""
    with remote.connected() as client:
        found = client.runs()
    emit({"runs": [one.model_dump(mode="json") for one in found]}, _table(found), as_json=as_json)


def show(run: RUN, as_json: JSON = False) -> None:
    """Show how far a run is."""
    with remote.connected() as client:
        _one(client.run(run), as_json=as_json)


def watch(run: RUN, as_json: JSON = False) -> None:
    """Follow a run to its end, and print what its command printed; the exit code is the command's."""
    with remote.connected() as client:
        remote.follow(client, client.run(run), as_json=as_json)


def log(
    run: RUN,
    tail: Annotated[int, typer.Option(min=1, max=1 << 20, metavar="BYTES", help="At most its last bytes.")] = 65_536,
    as_json: JSON = False,
) -> None:
    """Print what a launched run said so far."""
    with remote.connected() as client:
        text = client.log(run, tail=tail)
    emit({"run": run, "log": text}, escape(text.rstrip("\n")), as_json=as_json)


def stop(run: RUN, as_json: JSON = False) -> None:
    """End a launched run as Ctrl-C would: finished trajectories stay, sandboxes are removed."""
    with remote.connected() as client:
        client.stop(run)
        *_, ended = client.watch(run)
    _one(ended, as_json=as_json)


def resume(run: RUN, as_json: JSON = False) -> None:
    """Go on with a launched run that is not running, and follow it to its end."""
    with remote.connected() as client:
        remote.follow(client, client.resume(run), as_json=as_json)


def _one(run: Run, *, as_json: bool) -> None:
    emit(run.model_dump(mode="json"), _table([run]), as_json=as_json)


def _table(found: list[Run]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("run", "kind", "state", "episodes", "solved", "ended by"):
        table.add_column(heading, justify="right" if heading in ("episodes", "solved") else "left")
    for one in found:
        kind, status = (one.process.kind, one.process.status) if one.process else ("", "")
        solved = "—" if one.success is None else f"{one.solved} of {one.graded}"
        ended = ", ".join(f"{count} {name}" for name, count in one.terminations.items())
        table.add_row(escape(one.id), kind, status, str(one.episodes), solved, escape(ended))
    return table
