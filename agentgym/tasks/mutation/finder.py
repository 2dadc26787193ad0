"""Find bugs of one module that its tests notice, as many as are asked for, in an order that depends on the seed alone."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from agentgym.sandbox.protocol import Image
from agentgym.tasks.mutation.bases import Base
from agentgym.tasks.mutation.mutants import Choice, Mutant, function_text, mutants_of, shuffled, sites_of
from agentgym.tasks.mutation.spelling import free_names, new_names, respelled
from agentgym.tasks.mutation.trial import Outcome, Trial, Workbench

TOO_MANY_NOTICE = 0.5
"""A bug that breaks more than this share of the tests is no puzzle."""
BATCH = 16
TRIES_PER_SPELLING = 2
"""Two draws of words for a function with few names may be the same."""


@dataclass(frozen=True, slots=True)
class Found:
    """A bug worth a task. healthy: the module without the bug; None: as it is in the base. bug: the key of the bug that this is a
    spelling of.
    """

    base: Base
    mutant: Mutant
    outcome: Outcome
    healthy: str | None = None
    bug: str = ""


@dataclass(slots=True)
class Finder:
    """The bugs of one module. `found` grows with `more`, always by the same ones; `exhausted` where there are no further ones.

    choice: which places for bugs to use.
    """

    base: Base
    module: str
    seed: int
    image: Image
    bench: Workbench
    dropped: Counter[str]
    choice: Choice = Choice()
    found: list[Found] = field(default_factory=list)
    exhausted: bool = False
    _mutants: Iterator[Mutant] | None = None
    _known: Trial | None = None
    _spare: deque[Found] = field(default_factory=deque)
    """Found beyond what was asked for, since bugs are tried by the batch."""

    async def more(self, wanted: int, lanes: int, heard: Callable[[], None]) -> None:
        """Find up to `wanted` further bugs with `lanes` sandboxes; `heard` is called after each try of a batch."""
        goal = len(self.found) + wanted
        self._hand_over(goal)
        if len(self.found) == goal:
            return
        if self._mutants is None:
            text = (self.base.tree / self.module).read_text(encoding="utf-8", errors="replace")
            # Not in a thread: CPython 3.11 confuses its count of recursions where two threads make syntax trees.
            sites = [site for site in sites_of(self.module, text) if self.choice.takes(site)]
            self._mutants = mutants_of(shuffled(sites, self.seed))
        trials = [await self.bench.open(self.base, self.image) for _ in range(lanes)]
        try:
            await self._prepare(trials)
            while len(self.found) < goal and not self.exhausted:
                size = max(2, min(BATCH, -(-(goal - len(self.found)) * 3 // (2 * lanes))))
                batches = [list(islice(self._mutants, size)) for _ in range(lanes)]
                ended = not batches[-1]
                results = await asyncio.gather(*map(_run, trials, batches))
                pairs = [
                    pair
                    for batch, outcomes in zip(batches, results, strict=True)
                    for pair in zip(batch, outcomes, strict=True)
                ]
                for mutant, outcome in pairs:
                    self._judge(mutant, outcome)
                self._hand_over(goal)
                self.exhausted = ended and not self._spare
                heard()
        finally:
            for trial in trials:
                await self.bench.give_back(trial)

    async def spellings(self, found: Found, count: int) -> list[Found]:
        """`found` in `count` spellings that its tests cannot tell apart; fewer where there are too few names or words for it."""
        path = found.mutant.path
        texts = {name: (self.base.tree / name).read_text(encoding="utf-8", errors="replace") for name in self._python()}
        healthy = texts.pop(path)
        names = free_names(healthy, texts.values())
        chosen: dict[str, tuple[str, str]] = {function_text(healthy, found.mutant.function): (healthy, "")}
        for number in range(TRIES_PER_SPELLING * count):
            words = new_names(names, healthy, f"{self.seed} {found.mutant.key} {number}")
            text = respelled(healthy, words)
            chosen.setdefault(function_text(text, found.mutant.function), (text, respelled(found.mutant.source, words)))
        pairs = list(chosen.values())[1 : count + 1]
        wrongs = [found.mutant.spelled(*pair, number) for number, pair in enumerate(pairs)]
        rights = [replace(found.mutant, source=text) for text, _ in pairs]
        trial = await self.bench.open(self.base, self.image)
        try:
            await self._prepare([trial])
            outcomes = await trial.run([*rights, *wrongs])
        finally:
            await self.bench.give_back(trial)
        told = zip(outcomes[: len(rights)], outcomes[len(rights) :], strict=True)
        return [
            Found(self.base, wrong, outcome, healthy=right.source, bug=found.mutant.key)
            for right, wrong, (sound, outcome) in zip(rights, wrongs, told, strict=True)
            if not sound.noticed and not sound.hung and outcome.noticed.keys() == found.outcome.noticed.keys()
        ]

    def _python(self) -> list[str]:
        return sorted({*self.base.modules, *(name for name in self.base.tests if name.endswith(".py"))})

    def _hand_over(self, goal: int) -> None:
        while self._spare and len(self.found) < goal:
            self.found.append(self._spare.popleft())

    async def _prepare(self, trials: list[Trial]) -> None:
        """What the healthy tests do is learnt once: by itself in the first batch, or before it where several lanes must agree."""
        if self._known is None:
            self._known = trials[0]
            if len(trials) > 1:
                await trials[0].run([])
        for trial in trials:
            trial.trust(self._known)

    def _judge(self, mutant: Mutant, outcome: Outcome) -> None:
        share = len(outcome.noticed) / max(1, len(outcome.noticed) + len(outcome.passing))
        if outcome.hung:
            self.dropped["the tests hang"] += 1
        elif not outcome.noticed:
            self.dropped["no test notices"] += 1
        elif share > TOO_MANY_NOTICE:
            self.dropped["most tests fail"] += 1
        else:
            self._spare.append(Found(self.base, mutant, outcome))


async def _run(trial: Trial, batch: list[Mutant]) -> list[Outcome]:
    return await trial.run(batch) if batch else []
