"""`agentgym store rm`: remove trajectories for good."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from agentgym.cli.options import JSON
from agentgym.cli.output import counted, emit
from agentgym.cli.selection import selecting
from agentgym.cli.shared import DEFAULT_STORE, STORE
from agentgym.errors import InputError
from agentgym.store import Store, TrajectoryFilter
from agentgym.store.retention import Removal, plan_removal, remove, vacuum


def register(group: typer.Typer) -> None:
    group.command("rm")(rm)


@selecting
def rm(
    *,
    where: TrajectoryFilter,
    everything: Annotated[bool, typer.Option("--all", help="Without any other option: the whole store.")] = False,
    with_children: Annotated[bool, typer.Option(help="Also what other trajectories continue them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it; otherwise only say what would go.")] = False,
    compact: Annotated[bool, typer.Option("--vacuum/--no-vacuum", help="Give the space back afterwards.")] = True,
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Remove the trajectories these options select, and the harness documents nobody names any more.

    Without --yes it only says what would go.
    """
    if where == TrajectoryFilter() and not everything:
        raise InputError("rm without a selection would empty the store", hint="name a run or an age, or --all")
    with Store.open(store, create=False) as opened:
        found = (remove if yes else plan_removal)(opened, where, with_children=with_children)
        if yes and compact and found.trajectories:
            vacuum(opened)
    emit({"removed": yes, **asdict(found)}, _told(found, done=yes), as_json=as_json)


def _told(found: Removal, *, done: bool) -> str:
    what = f"{counted(found.trajectories, 'trajectory')} ({found.blob_bytes / 1e6:.1f} MB)"
    if found.documents:
        what += f" and {counted(found.documents, 'harness document')}"
    lines = [f"removed {what}" if done else f"would remove {what}; --yes does it"]
    if found.kept:
        lines.append(
            f"kept {counted(found.kept, 'trajectory')} that others continue; --with-children removes those too"
        )
    return "\n".join(lines)
