"""The `agentgym` command: argument handling, error lines and exit codes; each group of commands is a module of its own."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import agentgym
from agentgym import telemetry
from agentgym.cli import (
    doctor,
    ending,
    evaluate,
    gateway,
    images,
    models,
    quickstart,
    remote,
    replay,
    report,
    rollout,
    runs,
    sandbox,
    serve,
    store,
    tasks,
    train,
)
from agentgym.cli.options import expand_at_files
from agentgym.cli.output import configure_logging
from agentgym.errors import InputError

app = typer.Typer(
    name="agentgym",
    help="Train coding agents by reinforcement learning, and trust the update.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

# Torch and the engines are imported inside the commands: `agentgym --help` must not wait for them.
for group in (
    quickstart,
    doctor,
    tasks,
    images,
    models,
    rollout,
    evaluate,
    gateway,
    train,
    replay,
    report,
    store,
    serve,
    runs,
    sandbox,
):
    group.register(app)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what the parts do, on stderr.")] = False,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL", envvar=remote.SERVER_VARIABLE, help="Ask this `agentgym serve` instead of a store here."
        ),
    ] = None,
) -> None:
    configure_logging(verbose)
    telemetry.configure()
    remote.choose(server, context.invoked_subcommand)
    if version:
        typer.echo(agentgym.__version__)
        raise typer.Exit


def main() -> None:
    """Entry point; `agentgym.cli.ending` says how it ends."""
    arguments = expand_at_files(sys.argv[1:])
    verbose = "--verbose" in arguments or "-v" in arguments
    sys.exit(ending.run(lambda: _run(arguments), as_json="--json" in arguments, verbose=verbose))


def _run(arguments: list[str]) -> object:
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{argument!a} is not UTF-8", hint="write it in UTF-8") from error
    return app(arguments)
