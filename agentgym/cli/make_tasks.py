"""`agentgym tasks from-pypi|from-git|import|export|report`: where tasks come from, and how they leave.

What is made is written as task directories below `--out` and entered in the registry at once, as `registered`: `agentgym tasks
validate` is the gate before anybody is paid for solving them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from agentgym.cli.options import JSON
from agentgym.cli.output import emit, stderr
from agentgym.cli.shared import BACKEND, DEFAULT_STORE, NAMES, STORE, backend_for, open_registry, resolve_tasks
from agentgym.errors import InputError
from agentgym.sandbox.protocol import SandboxBackend
from agentgym.tasks import load_task
from agentgym.tasks.discovery import Discovery
from agentgym.tasks.export import export_harbor, export_swe_bench
from agentgym.tasks.from_git import from_git
from agentgym.tasks.from_pypi import PairOptions, from_pypi
from agentgym.tasks.importers import BENCHMARKS, ImportReport, Refusal, import_rows
from agentgym.tasks.importers.terminal_bench import import_terminal_bench
from agentgym.tasks.registry import Registry
from agentgym.tasks.survival import insert, survival_report

DEFAULT_OUT = Path("tasks")
OUT = Annotated[Path, typer.Option("--out", help="Folder that the task directories are written to.")]
SPLIT = Annotated[str, typer.Option("--split", help="train or held-out.")]
TEXT = Annotated[
    Path | None, typer.Option("--instruction", help="File with the text for the agent; default: from what fails.")
]


def register(group: typer.Typer) -> None:
    """Add the commands to `agentgym tasks`."""
    group.command("from-pypi")(pypi)
    group.command("from-git")(git)
    group.command("import")(import_file)
    group.command("export")(export)
    group.command("report")(report_survival)


def pypi(
    package: Annotated[str, typer.Argument(help="Distribution name on the package index.")],
    old: Annotated[str, typer.Argument(help="Release with the bug.")],
    new: Annotated[str, typer.Argument(help="Release that mended it.")],
    out: OUT = DEFAULT_OUT,
    split: SPLIT = "train",
    instruction: TEXT = None,
    backend: BACKEND = "auto",
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Make a task from two releases of a package: the newer one's tests judge, its source is the solution."""
    options = PairOptions(instruction=_text(instruction), split=split)
    _make(lambda opened: from_pypi(package, old, new, out, opened, options), backend, store, as_json=as_json)


def git(
    repository: Annotated[Path, typer.Argument(help="A git repository on this machine.")],
    base: Annotated[str, typer.Argument(help="Commit with the bug.")],
    fix: Annotated[str, typer.Argument(help="Commit that mended it.")],
    out: OUT = DEFAULT_OUT,
    split: SPLIT = "train",
    instruction: TEXT = None,
    backend: BACKEND = "auto",
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Make a task from two commits of a repository, as from two releases."""
    options = PairOptions(instruction=_text(instruction), split=split)
    _make(lambda opened: from_git(repository, base, fix, out, opened, options), backend, store, as_json=as_json)


def import_file(
    benchmark: Annotated[str, typer.Argument(help=f"{', '.join(sorted(BENCHMARKS))}, or terminal-bench.")],
    source: Annotated[str, typer.Argument(help="JSON, JSON lines, YAML or Parquet file, data set name, or directory.")],
    sources: Annotated[
        Path | None,
        typer.Option(
            help="Folder of clones (owner/name or owner__name): build environments from them, not from published images."
        ),
    ] = None,
    out: OUT = DEFAULT_OUT,
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Import a benchmark: every row becomes a task or is listed with the reason why not. Exit code 2 where none does.

    Rows of the SWE-bench family are graded with the `swebench` package's specifications and log parsers (`make swebench`).
    """
    if benchmark == "terminal-bench":
        report = ImportReport((import_terminal_bench(Path(source), out),), ())
    else:
        report = import_rows(benchmark, source, out, sources=sources)
    entries = enter(open_registry(store), list(report.written))
    lines = [f"{len(report.written)} tasks, {len(report.refused)} rows refused", *_reasons(report.refused)]
    if report.ungraded:
        lines += [f"{len(report.ungraded)} tasks cannot be graded", *_reasons(report.ungraded)]
    if report.published:
        lines += [f"{len(report.published)} tasks need their published image", *_reasons(report.published)]
    lists = {"refused": report.refused, "ungraded": report.ungraded, "published": report.published}
    emit(
        {"tasks": entries} | {name: [asdict(entry) for entry in found] for name, found in lists.items()},
        escape("\n".join(lines)),
        as_json=as_json,
    )
    if not report.written:
        raise InputError(f"no row of {source} makes a task")


def _reasons(entries: Sequence[Refusal]) -> list[str]:
    return [f"  {entry.place} {entry.instance_id}: {entry.reason}" for entry in entries]


def export(
    names: NAMES,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for Harbor directories, or a .jsonl file for SWE-bench rows.")
    ],
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Export tasks to Harbor directories, or to SWE-bench rows where the name ends in .jsonl."""
    tasks = resolve_tasks(names, open_registry(store))
    if out.suffix == ".jsonl":
        out.parent.mkdir(parents=True, exist_ok=True)
        export_swe_bench(tasks, out)
    else:
        for task in tasks:
            export_harbor(task, out)
    emit({"out": str(out), "tasks": [task.id for task in tasks]}, f"{len(tasks)} tasks in {out}", as_json=as_json)


def report_survival(
    into: Annotated[
        Path | None, typer.Option("--into", help="Markdown file to put the report into, between its markers.")
    ] = None,
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """How many tasks of each source survived validation, and why the rest did not."""
    entries = open_registry(store).list()
    text = survival_report(entries)
    if into is not None:
        into.write_text(insert(into.read_text(encoding="utf-8") if into.exists() else "", text), encoding="utf-8")
    counts = {
        status: sum(entry.status == status for entry in entries)
        for status in ("valid", "rejected", "error", "registered")
    }
    emit({"counts": counts, "into": str(into) if into else None}, escape(text), as_json=as_json)


def _make(
    work: Callable[[SandboxBackend], Awaitable[tuple[Path, Discovery]]], name: Any, store: str, *, as_json: bool
) -> None:
    async def run() -> tuple[Path, Discovery]:
        async with backend_for(name, owner="tasks") as opened:
            with stderr.status("building, and running the tests with and without the solution"):
                return await work(opened)

    root, found = asyncio.run(run())
    counts = {
        "fail_to_pass": len(found.fail_to_pass),
        "pass_to_pass": len(found.pass_to_pass),
        "broken": list(found.broken),
        "unstable": list(found.unstable),
    }
    text = (
        f"{root}: {len(found.fail_to_pass)} tests decide, {len(found.pass_to_pass)} must go on passing; "
        f"left out: {len(found.broken)} that fail even when solved, {len(found.unstable)} that disagree with themselves\n"
        f"next: agentgym tasks validate {root.name}"
    )
    emit({"task": enter(open_registry(store), [root])[0], **counts}, escape(text), as_json=as_json)


def enter(registry: Registry, directories: list[Path]) -> list[dict[str, str]]:
    """Register task directories, and say of each what it is now."""
    entries = [registry.register(load_task(directory)) for directory in directories]
    return [
        {"id": entry.id, "digest": entry.digest, "directory": str(entry.root), "status": entry.status}
        for entry in entries
    ]


def _text(file: Path | None) -> str | None:
    return file.read_text(encoding="utf-8") if file else None
