"""`agentgym doctor`: what this machine can do, what is missing, and the command that mends it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from agentgym.cli import machine
from agentgym.cli.options import JSON
from agentgym.cli.output import emit, stderr
from agentgym.errors import MachineError


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(
    job: Annotated[machine.Job, typer.Option("--for", help="Judge by what this job needs.")] = machine.Job.QUICKSTART,
    fix: Annotated[
        bool, typer.Option("--fix", help="As root on Debian: install and start what the job misses.")
    ] = False,
    as_json: JSON = False,
) -> None:
    """Say what this machine can do and what is missing, with the command that mends it.

    Exit code 3 where the job cannot run.
    """
    checks = machine.examine()
    if fix and (missing := machine.missing_for(job, checks)):
        if machine.can_fix():
            machine.fix(missing, say=lambda text: stderr.print(f"[dim]{text}…[/]"))
            checks = machine.examine()
        else:
            stderr.print("[yellow]not root on Debian:[/] run the commands below yourself")
    missing = machine.missing_for(job, checks)
    emit({"usable": not missing, "checks": [asdict(check) for check in checks]}, _table(checks, job), as_json=as_json)
    if missing:
        names = ", ".join(check.name for check in missing)
        raise MachineError(f"{job.value} cannot run here: {names}", hint="; ".join(check.fix for check in missing))


def _table(checks: list[machine.Check], job: machine.Job) -> Table:
    table = Table(title=f"This machine, for {job.value}", title_justify="left", box=None, pad_edge=False)
    for heading in ("", "what", "found", "to mend"):
        table.add_column(heading)
    for check in checks:
        mark = "[green]ok[/]" if check.ok else "[red]—[/]"
        table.add_row(mark, check.name, check.detail, "" if check.ok else check.fix)
    return table
