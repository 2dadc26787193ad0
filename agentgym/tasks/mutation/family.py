"""A family of tasks in one go: bases → mutants → trials → task directories, seeded and reproducible.

What is asked for is shared out evenly over the modules; where one has fewer bugs than its share, the others make up for it in
another round. One image serves all bases that need the same, and every sandbox tries many bugs, so a hundred tasks of small
modules take about a minute.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.sandbox.protocol import Image, ImageSpec, SandboxBackend
from agentgym.tasks.digest import tree_digest
from agentgym.tasks.files_task import copy_tree
from agentgym.tasks.mutation.bases import Base
from agentgym.tasks.mutation.finder import Finder, Found
from agentgym.tasks.mutation.mutants import Choice
from agentgym.tasks.mutation.sets import HELD_OUT, SetName, deal, share_of, split_of
from agentgym.tasks.mutation.trial import Workbench
from agentgym.tasks.mutation.write import Show, write_mutant
from agentgym.together import together

OnFound = Callable[[int], None]
WRITERS = 4


@dataclass(slots=True)
class FamilyReport:
    """written: task directories by set ("" where there are no sets). dropped: why mutants did not become tasks."""

    written: dict[str, list[Path]] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    difficulties: Counter[str] = field(default_factory=Counter)
    modules: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def directories(self) -> list[Path]:
        return [root for roots in self.written.values() for root in roots]


async def mutate(
    bases: Sequence[Base],
    wanted: int | Mapping[SetName, int],
    parent: Path,
    backend: SandboxBackend,
    *,
    seed: int = 0,
    workers: int = 2,
    show: Show = "nothing",
    spellings: int = 1,
    choice: Choice = Choice(),
    on_found: OnFound = lambda found: None,
) -> FamilyReport:
    """Write `wanted` tasks below `parent`, or that many of each set below a folder of its name; fewer where there are no more.

    workers: sandboxes at once. show: the code in the instruction. spellings: in so many spellings each bug of `train` and
    `instances` comes; with more than one, the held-out instances are other spellings of the very bugs of `train`. choice: which
    places for bugs to use. on_found: hears how many bugs there are so far.
    """
    started = time.monotonic()
    report = FamilyReport()
    search = _Search(backend, Workbench(backend, workers), workers, seed, report.dropped, on_found, choice)
    try:
        await _make(search, bases, wanted, parent, report, show=show, spellings=spellings)
    finally:
        await search.bench.close()
    report.seconds = time.monotonic() - started
    _note(report, seed, parent)
    return report


async def _make(
    search: _Search,
    bases: Sequence[Base],
    wanted: int | Mapping[SetName, int],
    parent: Path,
    report: FamilyReport,
    *,
    show: Show,
    spellings: int,
) -> None:
    finders = await search.finders(bases, parent)
    if isinstance(wanted, int):
        found = await search.find(finders, wanted)
        _write(report, "", found, parent, show)
    else:
        shares = {name: [one for one in finders if share_of(one.base, one.module) == name] for name in wanted}
        pool = wanted.get("train", 0) + wanted.get("instances", 0)
        shares["train"] = [one for one in finders if share_of(one.base, one.module) == "train"]
        for name in ("cold-start", "modules"):
            if wanted.get(name):
                _write(report, name, await search.find(shares[name], wanted[name]), parent, show)
        if pool:
            found = await search.find_spelled(shares["train"], pool, spellings)
            kept, held_out = deal(found, wanted.get("instances", 0) * len(found) // pool)
            _write(report, "train", kept, parent, show)
            _write(report, "instances", held_out, parent, show)


@dataclass(slots=True)
class _Search:
    backend: SandboxBackend
    bench: Workbench
    workers: int
    seed: int
    dropped: Counter[str]
    on_found: OnFound
    choice: Choice
    total: int = 0

    async def finders(self, bases: Sequence[Base], parent: Path) -> list[Finder]:
        """One for each module; the image of each kind of base is built here, once."""
        images: dict[str, Image] = {}
        made = []
        for base in bases:
            spec = _healthy_image(base, parent)
            if spec.digest not in images:
                images[spec.digest] = await self.backend.ensure_image(spec)
            image = images[spec.digest]
            made += [
                Finder(base, module, self.seed, image, self.bench, self.dropped, self.choice) for module in base.modules
            ]
        return made

    async def find(self, finders: Sequence[Finder], wanted: int) -> list[Found]:
        """`wanted` bugs, evenly from all modules as far as they go; module by module, in a fixed order."""
        slots = asyncio.Semaphore(self.workers)
        before = self.total

        async def more(finder: Finder, number: int, lanes: int) -> None:
            async with slots:
                await finder.more(number, lanes, lambda: self.on_found(before + sum(len(one.found) for one in finders)))

        while (missing := wanted - sum(len(one.found) for one in finders)) > 0:
            active = [one for one in finders if not one.exhausted]
            if not active:
                break
            share, lanes = -(-missing // len(active)), max(1, self.workers // len(active))
            await together(more(finder, share, lanes) for finder in active)
        found = _trimmed([one.found for one in finders], wanted)
        self.total = before + len(found)
        return found

    async def find_spelled(self, finders: Sequence[Finder], wanted: int, spellings: int) -> list[Found]:
        """`wanted` tasks: as many spellings of each bug; a bug that has too few gives its place to another."""
        if spellings == 1:
            return await self.find(finders, wanted)
        whose = {(one.base.name, one.module): one for one in finders}
        slots = asyncio.Semaphore(self.workers)
        spelled: dict[str, list[Found]] = {}

        async def spell(key: str, bug: Found) -> None:
            async with slots:
                spelled[key] = await whose[bug.base.name, bug.mutant.path].spellings(bug, spellings)
            self.dropped["too few spellings"] += len(spelled[key]) < spellings
            self.on_found(self.total + sum(map(len, spelled.values())))

        bugs = goal = -(-wanted // spellings)
        while True:
            found = {f"{bug.base.name} {bug.mutant.key}": bug for bug in await self.find(finders, goal)}
            await together(spell(key, found[key]) for key in found.keys() - spelled.keys())
            whole = [spelled[key] for key in found if len(spelled[key]) == spellings]
            if len(whole) >= bugs or len(found) < goal:
                return [task for one in whole for task in one][:wanted]
            goal += bugs - len(whole)


def _trimmed(found: Sequence[Sequence[Found]], wanted: int) -> list[Found]:
    """At most `wanted`, as evenly from all as can be; grouped by module."""
    for limit in range(1, max(map(len, found), default=0) + 1):
        if sum(min(limit, len(one)) for one in found) >= wanted:
            break
    else:
        return [bug for one in found for bug in one]
    kept = [list(one[:limit]) for one in found]
    excess = sum(map(len, kept)) - wanted
    for one in reversed(kept):
        if excess and len(one) == limit:
            one.pop()
            excess -= 1
    return [bug for one in kept for bug in one]


def _write(report: FamilyReport, name: str, found: Sequence[Found], parent: Path, show: Show) -> None:
    written = report.written.setdefault(name, [])
    tags = [f"set:{name}"] if name else []

    def write(bug: Found) -> tuple[Path, str]:
        split = ("held-out" if name in HELD_OUT else "train") if name else split_of(bug.base, bug.mutant.path)
        return write_mutant(bug, parent / name, split=split, tags=tags, show=show)

    with ThreadPoolExecutor(WRITERS) as pool:  # each waits for git most of the time
        tasks = list(pool.map(write, found))
    for bug, (root, difficulty) in zip(found, tasks, strict=True):
        written.append(root)
        report.operators[bug.mutant.operator] += 1
        report.difficulties[difficulty] += 1
    report.modules[name] = len({(bug.base.name, bug.mutant.path) for bug in found})


def _note(report: FamilyReport, seed: int, parent: Path) -> None:
    """`family.json`: what the family is, for whoever finds it later."""
    facts = {
        "seed": seed,
        "tasks": {name or "all": len(roots) for name, roots in report.written.items()},
        "modules": {name or "all": number for name, number in report.modules.items()},
        "operators": dict(report.operators.most_common()),
        "difficulties": dict(report.difficulties.most_common()),
        "dropped": dict(report.dropped.most_common()),
        "seconds": round(report.seconds, 1),
    }
    parent.mkdir(parents=True, exist_ok=True)
    (parent / "family.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _healthy_image(base: Base, parent: Path) -> ImageSpec:
    """The base without a bug; its context is kept beside the tasks, so that a second run finds the image built."""
    key = hashlib.sha256(base.dockerfile.encode()).hexdigest()[:12]
    context = parent / ".bases" / (base.name if base.context else f"shared-{key}")
    for name, source in base.context.items():
        copy_tree(source, context / name)
    context.mkdir(parents=True, exist_ok=True)
    (context / "Dockerfile").write_text(base.dockerfile, encoding="utf-8")
    return ImageSpec(name=f"healthy-{context.name}".lower(), digest=tree_digest(context), context=context)
