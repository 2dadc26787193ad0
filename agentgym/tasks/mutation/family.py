"""A family of tasks in one go: bases → mutants → trials → task directories, seeded and reproducible."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.sandbox.protocol import ImageSpec, SandboxBackend
from agentgym.tasks.digest import tree_digest
from agentgym.tasks.files_task import copy_tree
from agentgym.tasks.mutation.bases import Base
from agentgym.tasks.mutation.mutants import Mutant, mutants_of, shuffled, sites_of
from agentgym.tasks.mutation.trial import Trial
from agentgym.tasks.mutation.write import write_mutant

TOO_MANY_NOTICE = 0.5
"""A bug that breaks more than this share of the tests is no puzzle."""


@dataclass(slots=True)
class FamilyReport:
    """written: task directories. dropped: why mutants did not become tasks, and how many each."""

    written: list[Path] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


async def mutate(
    bases: Sequence[Base],
    count: int,
    parent: Path,
    backend: SandboxBackend,
    *,
    seed: int = 0,
    workers: int = 2,
    on_task: Callable[[FamilyReport], None] = lambda report: None,
) -> FamilyReport:
    """Write about `count` tasks, the same number from every base; fewer where a base has fewer bugs that tests notice."""
    report = FamilyReport()
    share = -(-count // len(bases))
    slots = asyncio.Semaphore(workers)

    async def one(base: Base) -> None:
        async with slots:
            await _from_base(base, share, parent, backend, seed, report, on_task)

    async with asyncio.TaskGroup() as group:
        for base in bases:
            group.create_task(one(base))
    report.written = sorted(report.written)[:count]
    return report


async def _from_base(
    base: Base,
    wanted: int,
    parent: Path,
    backend: SandboxBackend,
    seed: int,
    report: FamilyReport,
    on_task: Callable[[FamilyReport], None],
) -> None:
    image = await backend.ensure_image(_healthy_image(base, parent))
    sandbox = await backend.start(image)
    written = 0
    try:
        trial = Trial(base, sandbox)
        await trial.start()
        for mutant in _mutants(base, seed):
            outcome = await trial.run(mutant)
            share = len(outcome.noticed) / max(1, len(outcome.noticed) + len(outcome.passing))
            if outcome.hung:
                report.dropped["the tests hang"] += 1
            elif not outcome.noticed:
                report.dropped["no test notices"] += 1
            elif share > TOO_MANY_NOTICE:
                report.dropped["most tests fail"] += 1
            else:
                report.written.append(write_mutant(base, mutant, outcome, parent))
                written += 1
            on_task(report)
            if written == wanted:
                return
    finally:
        await sandbox.close()


def _mutants(base: Base, seed: int) -> Iterator[Mutant]:
    sites = []
    for module in base.modules:
        sites += sites_of(module, (base.tree / module).read_text(encoding="utf-8"))
    yield from mutants_of(shuffled(sites, seed))


def _healthy_image(base: Base, parent: Path) -> ImageSpec:
    """The base without a bug; its context is kept beside the tasks, so that a second run finds the image built."""
    context = parent / ".bases" / base.name
    for name, source in base.context.items():
        copy_tree(source, context / name)
    context.mkdir(parents=True, exist_ok=True)
    (context / "Dockerfile").write_text(base.dockerfile, encoding="utf-8")
    return ImageSpec(name=f"healthy-{base.name}".lower(), digest=tree_digest(context), context=context)
