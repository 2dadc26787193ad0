"""`agentgym sandbox`: look after what sandboxes leave behind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer

from agentgym.cli.options import JSON
from agentgym.cli.output import emit
from agentgym.sandbox import BackendName, open_backend
from agentgym.sandbox.kubernetes.config import config_file
from agentgym.sandbox.protocol import BackendUnavailable


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Look after what sandboxes leave behind.", no_args_is_help=True)
    group.command("reap")(reap)
    app.add_typer(group, name="sandbox")


def reap(
    everything: Annotated[bool, typer.Option("--all", help="Also sandboxes whose owner still lives.")] = False,
    backend: Annotated[
        BackendName | None, typer.Option(help="Only there; default: docker, local, and a cluster that is configured.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Remove sandboxes whose owner is dead or whose time is over, in every backend that answers.

    Works from the labels on the sandboxes alone, so it needs no memory of the run that made them.
    """
    names = [backend] if backend else ["docker", "local", *(["kubernetes"] if config_file() else [])]
    removed = asyncio.run(_reap(names, everything))
    lines = [f"{name}: {'not available' if count is None else f'{count} removed'}" for name, count in removed.items()]
    emit({"removed": removed}, "\n".join(lines), as_json=as_json)


async def _reap(names: Sequence[str], everything: bool) -> dict[str, int | None]:
    removed: dict[str, int | None] = {}
    for name in names:
        try:
            backend = await open_backend(name)
        except BackendUnavailable:
            removed[name] = None
            continue
        try:
            removed[name] = await backend.reap(everything=everything)
        finally:
            await backend.close()
    return removed
