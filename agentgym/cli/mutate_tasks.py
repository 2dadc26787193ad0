"""`agentgym tasks mutate`: families of new bugs in healthy code."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from agentgym.cli.make_tasks import DEFAULT_OUT, OUT, enter
from agentgym.cli.options import JSON
from agentgym.cli.output import emit, progress
from agentgym.cli.shared import BACKEND, DEFAULT_STORE, STORE, backend_for, open_registry
from agentgym.errors import InputError

if TYPE_CHECKING:
    from agentgym.tasks.mutation.bases import Base
    from agentgym.tasks.mutation.family import FamilyReport


def register(group: typer.Typer) -> None:
    """Add the command to `agentgym tasks`."""
    group.command("mutate")(mutate_code)


def mutate_code(
    sources: Annotated[
        list[str], typer.Argument(help='"snippets" or "snippets:NAME", directories with tests, PACKAGE==VERSION.')
    ],
    count: Annotated[int, typer.Option("--n", min=1, help="How many tasks in all.")] = 100,
    sets: Annotated[
        str | None,
        typer.Option(
            help="Instead of --n: how many tasks of each set, such as cold-start=320,train=400,instances=200,modules=200 "
            '(that is "default"), each in a folder of its own. instances: held-out bugs of the modules of train; modules: bugs '
            "of modules that no other set sees."
        ),
    ] = None,
    show: Annotated[
        str,
        typer.Option(
            help="Code in the instruction, for small policies: nothing, module, the function with the bug, or that and the line."
        ),
    ] = "nothing",
    operators: Annotated[
        str | None, typer.Option(help="Only these kinds of mistakes, by commas (agentgym/tasks/mutation/operators.py).")
    ] = None,
    max_lines: Annotated[
        int | None, typer.Option(min=2, help="Only in functions of at most so many lines, for small policies.")
    ] = None,
    spellings: Annotated[
        int,
        typer.Option(
            min=1,
            help="With --sets: each bug of train and instances in so many spellings (other names of variables), some of "
            "them held out.",
        ),
    ] = 1,
    seed: Annotated[int, typer.Option(help="The same seed gives the same family.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Sandboxes that try bugs at once.")] = 2,
    out: OUT = DEFAULT_OUT,
    backend: BACKEND = "auto",
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Put new bugs into healthy code and keep those that its tests notice. Without --sets no source module is in both splits."""
    from agentgym.tasks.mutation.mutants import Choice  # the package brings LibCST
    from agentgym.tasks.mutation.operators import OPERATORS
    from agentgym.tasks.mutation.sets import parse_counts
    from agentgym.tasks.mutation.write import Show

    wanted = parse_counts(sets) if sets else count
    if show not in get_args(Show):
        raise InputError(f"--show {show}: there are {', '.join(get_args(Show))}")
    kinds = operators.split(",") if operators else None
    if unknown := sorted(set(kinds or ()) - set(OPERATORS)):
        raise InputError(f"no such kinds of mistakes: {', '.join(unknown)}; there are {', '.join(OPERATORS)}")
    choice = Choice(frozenset(kinds) if kinds else None, max_lines)
    if spellings > 1 and not sets:
        raise InputError("--spellings without --sets: spellings are for bugs that are dealt to train and instances")
    options = {"seed": seed, "workers": jobs, "show": show, "spellings": spellings, "choice": choice}
    report = asyncio.run(_mutate(sources, wanted, out, backend, **options))
    if not report.directories:
        raise InputError(f"no bug that the tests notice was found in {', '.join(sources)}")
    entries = enter(open_registry(store), report.directories)
    facts = json.loads((out / "family.json").read_text(encoding="utf-8"))
    emit({"tasks": entries, "family": facts, "dropped": facts["dropped"]}, _family_text(facts, out), as_json=as_json)


def _family_text(facts: dict[str, Any], out: Path) -> str:
    sizes = [f"  {name}: {number} from {facts['modules'][name]} modules" for name, number in facts["tasks"].items()]
    shown = {
        "kinds of bugs": facts["operators"], "difficulty": facts["difficulties"], "tried and dropped": facts["dropped"],
    }  # fmt: skip
    lines = [
        f"  {what}: " + ", ".join(f"{number} {name}" for name, number in counts.items())
        for what, counts in shown.items()
    ]
    return "\n".join([f"{sum(facts['tasks'].values())} tasks in {out}, {facts['seconds']:.0f} s", *sizes, *lines])


async def _mutate(sources: list[str], wanted: Any, out: Path, name: Any, **options: Any) -> FamilyReport:
    from agentgym.tasks.mutation import mutate
    from agentgym.tasks.mutation.bases import directory_base, release_base, snippet_bases

    async with backend_for(name, owner="mutate") as opened:
        bases: list[Base] = []
        for source in sources:
            package, pinned, version = source.partition("==")
            if source.split(":")[0] == "snippets":
                bases += snippet_bases(*source.split(":")[1:])
            elif pinned:
                bases.append(await release_base(package, version, opened))
            else:
                bases.append(directory_base(Path(source)))
        with progress() as bars:
            total = wanted if isinstance(wanted, int) else sum(wanted.values())
            bar = bars.add_task("bugs that tests notice", total=total)

            def show(found: int) -> None:
                bars.update(bar, completed=min(found, total))

            return await mutate(bases, wanted, out, opened, on_found=show, **options)
