"""`agentgym tasks candidates|rediscover`: which releases could make tasks, and whether the generator finds what is known."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from agentgym.cli.options import JSON
from agentgym.cli.output import emit, progress, stderr
from agentgym.cli.shared import BACKEND, DEFAULT_STORE, STORE, backend_for, open_registry, resolve_tasks
from agentgym.errors import AgentGymError
from agentgym.tasks import candidates as pairs
from agentgym.tasks.rediscover import (
    BEGIN,
    END,
    Comparison,
    Reference,
    append_result,
    comparison_table,
    failure,
    listed_references,
    read_results,
    rediscover,
    shipped_references,
)
from agentgym.tasks.survival import insert
from agentgym.together import together


def register(group: typer.Typer) -> None:
    """Add the commands to `agentgym tasks`."""
    group.command("candidates")(list_candidates)
    group.command("rediscover")(rediscover_pairs)


def list_candidates(
    packages: Annotated[list[str], typer.Argument(metavar="PACKAGE", help="Distribution names on the package index.")],
    last: Annotated[int, typer.Option(min=1, help="How many pairs of neighbouring releases, the newest ones.")] = 8,
    as_json: JSON = False,
) -> None:
    """Which neighbouring releases of a package could make a task, judged by their archives alone: nothing is built."""
    found: list[pairs.Candidate] = []
    for package in packages:
        with stderr.status(f"reading the releases of {package}"):
            found += pairs.candidates(package, last=last)
    table = Table(box=None, pad_edge=False)
    for heading in ("old", "new", "source lines", "test lines", "licence", "why not"):
        table.add_column(heading, overflow="fold", justify="right" if heading.endswith("lines") else "left")
    for one in found:
        sizes = ("", "") if one.reason and not one.source_lines else (str(one.source_lines), str(one.test_lines))
        table.add_row(*map(escape, (f"{one.package} {one.old}", one.new, *sizes, one.licence, one.reason)))
    emit({"candidates": [asdict(one) for one in found]}, table, as_json=as_json)


def rediscover_pairs(
    names: Annotated[list[str] | None, typer.Argument(metavar="TASK", help="Shipped pairs, by id, or all.")] = None,
    listed: Annotated[
        Path | None, typer.Option(help="JSON list of verified pairs to compare with, instead of what ships.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="JSON lines file; pairs that it holds already are not generated again.")
    ] = None,
    into: Annotated[
        Path | None, typer.Option("--into", help="Markdown file to put the table into, between its markers.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Pairs generated at once.")] = 2,
    backend: BACKEND = "auto",
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Generate pairs anew whose deciding tests are known, and compare. Exit code 1 where any differs."""
    if listed is not None:
        wanted = [one for one in listed_references(listed) if not names or one.name in names]
    else:
        wanted = shipped_references(resolve_tasks(names or ["all"], open_registry(store)))
    known = read_results(results) if results else {}
    pending = [one for one in wanted if one.name not in known]
    for one in asyncio.run(_rediscover(pending, backend, jobs, results)):
        known[one.name] = one
    found = [known[one.name] for one in wanted]
    text = comparison_table(found)
    if into is not None:
        into.write_text(
            insert(into.read_text(encoding="utf-8") if into.exists() else "", text, BEGIN, END), encoding="utf-8"
        )
    emit({"pairs": [asdict(one) | {"same": one.same} for one in found]}, escape(text), as_json=as_json)
    different = [one.name for one in found if not one.same]
    if different:
        raise AgentGymError(f"{len(different)} of {len(found)} pairs differ: {', '.join(different)}")


async def _rediscover(pending: Sequence[Reference], name: Any, jobs: int, results: Path | None) -> list[Comparison]:
    if not pending:
        return []
    slots = asyncio.Semaphore(jobs)
    async with backend_for(name, owner="rediscover") as opened:
        with progress() as bars:
            bar = bars.add_task("generating known pairs", total=len(pending))

            async def one(reference: Reference) -> Comparison:
                async with slots:
                    try:
                        found = await rediscover(reference, opened)
                        if results:
                            append_result(results, found)
                    except AgentGymError as error:  # of the machine, not of the pair: another run may do better
                        found = failure(reference, error)
                bars.advance(bar)
                return found

            return await together(map(one, pending))
