"""`agentgym serve`: the REST API and the pages for people."""

from __future__ import annotations

from typing import Annotated

import typer

from agentgym.cli.output import stderr
from agentgym.cli.shared import DEFAULT_STORE, STORE


def register(app: typer.Typer) -> None:
    app.command("serve")(serve)


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    store: STORE = DEFAULT_STORE,
) -> None:
    """Serve tasks and trajectories: JSON for programs, pages for people."""
    import uvicorn

    from agentgym.server.app import create_app

    stderr.print(f"http://{host}:{port}/ shows {store}; Ctrl-C stops it")
    uvicorn.run(create_app(store), host=host, port=port, log_level="warning")
