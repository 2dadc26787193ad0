"""`agentgym tasks`: which problems exist, and whether their rewards can be trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from agentgym.cli import make_tasks, mutate_tasks, pairs, remote
from agentgym.cli.options import JSON
from agentgym.cli.output import emit, progress
from agentgym.cli.shared import (
    BACKEND,
    DEFAULT_STORE,
    STORE,
    backend_for,
    known_task,
    known_tasks,
    open_registry,
    resolve_tasks,
)
from agentgym.errors import AgentGymError
from agentgym.tasks import Task, load_task
from agentgym.tasks.loader import task_directories
from agentgym.tasks.registry import RegisteredTask, Registry, Status
from agentgym.tasks.report import ValidationReport
from agentgym.tasks.validation import validate
from agentgym.together import together

if TYPE_CHECKING:
    from agentgym.server.api.models import TaskInfo


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Which problems exist.", no_args_is_help=True, callback=_remote_only)
    group.command("list")(list_tasks)
    group.command("show")(show)
    group.command("register")(register_tasks)
    group.command("validate")(validate_tasks)
    for module in (make_tasks, mutate_tasks, pairs):
        module.register(group)
    app.add_typer(group, name="tasks")


def _remote_only(context: typer.Context) -> None:
    remote.only("tasks", context.invoked_subcommand, frozenset({"list", "show"}))


def list_tasks(
    status: Annotated[Status | None, typer.Option(help="Only tasks of this status.")] = None,
    split: Annotated[str | None, typer.Option(help="Only this split.")] = None,
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """List the tasks that are known: the shipped ones and those you registered."""
    entries: Sequence[RegisteredTask | TaskInfo]
    if remote.asked():
        with remote.connected() as client:
            entries = list(client.tasks(status=status, split=split))
    else:
        known = known_tasks(store)
        entries = [one for one in known.values() if status in (None, one.status) and split in (None, one.split)]
    table = Table(title=f"{len(entries)} tasks", title_justify="left", box=None, pad_edge=False)
    for heading in ("id", "status", "source", "split", "difficulty", "language", "reason"):
        table.add_column(heading)
    for entry in entries:
        cells = (entry.id, entry.status, entry.source_kind, entry.split, entry.difficulty, entry.language)
        table.add_row(*map(escape, cells), escape(entry.reason[:80]))
    emit({"tasks": [_entry_json(entry) for entry in entries]}, table, as_json=as_json)


def show(
    task: Annotated[str, typer.Argument(metavar="TASK", help="Id or digest.")],
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Show one task: what the policy is told, which tests decide, and its last validation."""
    if remote.asked():
        with remote.connected() as client:
            entry = client.task(task)
    else:
        entry = known_task(task, store)
    manifest = entry.manifest
    directory = str(entry.root) if isinstance(entry, RegisteredTask) else "on the server"
    facts = Table(box=None, show_header=False, pad_edge=False)
    for name, value in (
        ("id", entry.id),
        ("digest", entry.digest),
        ("status", f"{entry.status} {entry.reason}"),
        ("directory", directory),
        ("source", ", ".join(f"{key} {value}" for key, value in manifest["source"].items())),
        ("FAIL_TO_PASS", "\n".join(manifest["fail_to_pass"])),
        ("PASS_TO_PASS", f"{len(manifest['pass_to_pass'])} tests"),
    ):
        facts.add_row(name, escape(value))
    emit(_entry_json(entry) | dict(manifest), Group(facts, "", escape(manifest["instruction"])), as_json=as_json)


def register_tasks(
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="DIRECTORY", help="Task directories in the Harbor layout, or folders of them."),
    ],
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Check task directories and enter them in the registry. Nothing is entered if any is broken."""
    tasks = [load_task(root) for directory in directories for root in task_directories(directory)]
    registry = Registry(store)
    entries = [registry.register(task) for task in tasks]
    lines = [f"{entry.id}: {entry.status} ({entry.digest[:19]})" for entry in entries]
    emit({"tasks": [_entry_json(entry) for entry in entries]}, "\n".join(lines), as_json=as_json)


def validate_tasks(
    names: Annotated[list[str] | None, typer.Argument(metavar="TASK", help="Ids, directories, or all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All registered tasks.")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="How often gold and empty are each graded.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="Tasks validated at once.")] = 2,
    again: Annotated[bool, typer.Option(help="Also tasks that have a verdict already.")] = False,
    backend: BACKEND = "auto",
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Prove that each task's reward can be trusted: gold passes, empty fails, repeats agree, nothing leaks.

    Tasks that already have a verdict are skipped, so an interrupted run goes on where it was.
    Exit code 1 where any task is not valid.
    """
    registry = open_registry(store)
    tasks = resolve_tasks(["all"] if every else names or [], registry)
    pending = [task for task in tasks if again or registry.get(task.digest).status in ("registered", "error")]
    asyncio.run(_validate(pending, registry, backend, repeats=repeats, jobs=jobs))
    entries = [registry.get(task.digest) for task in tasks]
    table = Table(title="validation", title_justify="left", box=None, pad_edge=False)
    for heading in ("task", "status", "seconds", "reason"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        seconds = f"{entry.report.seconds:.1f}" if entry.report else ""
        table.add_row(escape(entry.id), entry.status, seconds, escape(entry.reason))
    emit({"tasks": [_entry_json(entry) for entry in entries]}, table, as_json=as_json)
    invalid = [entry for entry in entries if entry.status != "valid"]
    if invalid:
        raise AgentGymError(f"{len(invalid)} of {len(entries)} tasks are not valid: {', '.join(e.id for e in invalid)}")


async def _validate(tasks: list[Task], registry: Registry, name: str, *, repeats: int, jobs: int) -> None:
    if not tasks:
        return
    slots = asyncio.Semaphore(jobs)
    async with backend_for(name, owner="validate") as backend:
        with progress() as bars:
            overall = bars.add_task("validating", total=len(tasks))

            async def one(task: Task) -> ValidationReport:
                async with slots:
                    bar = bars.add_task(f"  {task.id}", total=4)

                    def stage(text: str) -> None:
                        bars.update(bar, advance=1, description=f"  {task.id}: {text}")

                    report = await validate(task, backend, repeats=repeats, on_stage=stage)
                    registry.set_validation(report)
                    bars.remove_task(bar)
                    bars.advance(overall)
                    return report

            await together(map(one, tasks))


def _entry_json(entry: RegisteredTask | TaskInfo) -> dict[str, Any]:
    if not isinstance(entry, RegisteredTask):
        return entry.model_dump(mode="json", exclude={"manifest"})
    return {
        "id": entry.id,
        "digest": entry.digest,
        "status": entry.status,
        "reason": entry.reason,
        "source": entry.source_kind,
        "split": entry.split,
        "language": entry.language,
        "difficulty": entry.difficulty,
        "directory": str(entry.root),
        "validation": entry.report.model_dump(mode="json") if entry.report else None,
    }
