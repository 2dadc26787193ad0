"""`agentgym serve` and `agentgym token`: the REST API and the pages for people, and who may use them."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape
from rich.table import Table

from agentgym.cli.options import JSON
from agentgym.cli.output import emit, program, stderr
from agentgym.cli.shared import DEFAULT_STORE, STORE
from agentgym.errors import InputError

if TYPE_CHECKING:
    from agentgym.server.access.tokens import Tokens

TOKEN_FREE_HOSTS = ("127.0.0.1", "localhost", "::1")


def register(app: typer.Typer) -> None:
    app.command("serve")(serve)
    group = typer.Typer(help="API tokens of a server's store.", no_args_is_help=True)
    group.command("create")(create)
    group.command("ls")(ls)
    group.command("revoke")(revoke)
    app.add_typer(group, name="token")


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0: one that is free.")] = 8000,
    auth: Annotated[
        bool | None, typer.Option("--auth/--no-auth", help="Ask for tokens (default: unless on loopback).")
    ] = None,
    rate: Annotated[float | None, typer.Option(min=0.1, help="Most requests a second of one client.")] = None,
    max_running: Annotated[int, typer.Option(min=0, help="Most launched runs at once; 0 launches none.")] = 4,
    runs_dir: Annotated[Path, typer.Option(help="Where launched runs keep logs and checkpoints.")] = Path(
        "runs/server"
    ),
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log each request: route, status, time, who.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes that answer; more than one for many clients.")] = 1,
    store: STORE = DEFAULT_STORE,
) -> None:
    """Serve tasks, trajectories and runs: JSON under /v1 for programs, pages for people."""
    auth = host not in TOKEN_FREE_HOSTS if auth is None else auth
    if not auth and host not in TOKEN_FREE_HOSTS:
        raise InputError(
            f"--no-auth on {host}: whoever reaches that address could start runs here",
            hint="leave it out, and make a token with `agentgym token create`",
        )
    from agentgym.cli.serving import bind
    from agentgym.cli.serving import serve as run
    from agentgym.server import ServerSettings

    settings = ServerSettings(
        auth=auth,
        requests_per_second=rate or (100.0 if auth else None),
        max_running=max_running,
        runs_dir=runs_dir,
        access_log=access_log,
    )
    listening = bind(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/"
    stderr.print(f"{address} shows {escape(store)}; Ctrl-C stops it", highlight=False, soft_wrap=True)
    if auth:
        made = f"{program()} token create NAME --scope read --store {shlex.quote(store)}"
        stderr.print(f"[dim]asks for a token: {escape(made)}[/]", highlight=False, soft_wrap=True)
    with listening:
        run(store, settings, listening, workers=workers)


def create(
    name: Annotated[str, typer.Argument(help="Whose it is.")],
    scope: Annotated[
        Literal["read", "run", "admin"], typer.Option(help="read, run (also start and stop runs), admin (everything).")
    ] = "read",
    days: Annotated[float | None, typer.Option(min=0.001, help="Until it expires; never where not given.")] = None,
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Make a token. It is shown once; the store keeps its hash."""
    with _tokens(store) as tokens:
        text, info = tokens.create(name, scope, None if days is None else days * 86_400)
    emit({"token": text, **asdict(info)}, text, as_json=as_json)


def ls(store: STORE = DEFAULT_STORE, as_json: JSON = False) -> None:
    """List tokens, without their secrets."""
    with _tokens(store) as tokens:
        found = tokens.list()
    table = Table(box=None, pad_edge=False)
    for heading in ("id", "name", "scope", "state", "last used"):
        table.add_column(heading)
    now = time.time()
    for one in found:
        state = "revoked" if one.revoked_at else "live" if one.is_live(now) else "expired"
        used = time.strftime("%Y-%m-%d %H:%M", time.gmtime(one.last_used_at)) if one.last_used_at else "never"
        table.add_row(one.id, escape(one.name), one.scope, state, used)
    emit({"tokens": [asdict(one) for one in found]}, table, as_json=as_json)


def revoke(
    token: Annotated[str, typer.Argument(metavar="ID", help="Its id, as `token ls` lists it.")],
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Revoke a token; servers that run stop taking it within five seconds."""
    with _tokens(store) as tokens:
        tokens.revoke(token)
    emit({"revoked": token}, f"revoked {token}", as_json=as_json)


@contextmanager
def _tokens(url: str) -> Iterator[Tokens]:
    from agentgym.server.access.tokens import Tokens
    from agentgym.store import Store

    with Store.open(url) as store:
        yield Tokens(store.engine)
