"""A mutant that tests notice, as a task directory: the healthy image with one module replaced."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from agentgym.tasks.files_task import FilesRecipe, copy_tree, write_files_task
from agentgym.tasks.instructions import readable
from agentgym.tasks.mutation.bases import Base
from agentgym.tasks.mutation.finder import Found
from agentgym.tasks.mutation.mutants import Mutant, function_text
from agentgym.tasks.mutation.trial import Outcome

Show = Literal["nothing", "module", "function", "line"]
"""What of the code an instruction shows, for policies that cannot look around: the module with the bug, its function alone, or
that and the wrong line, as where a fault has been located and only the mend is asked for."""


def difficulty_score(base: Base, mutant: Mutant, outcome: Outcome) -> float:
    """0 (easy) to 1: how much code to read (function, module), and how little the failing tests point at the place."""
    lines = (base.tree / mutant.path).read_text(encoding="utf-8", errors="replace").count("\n")
    name = mutant.function.rsplit(".", 1)[-1].strip("_").lower()
    named = any(name in test.lower().replace("_", "") or name in test.lower() for test in outcome.noticed)
    reading = min(mutant.length / 80, 1.0) * 0.35 + min(lines / 800, 1.0) * 0.35
    return round(reading + (0.0 if named else 0.2) + (0.1 if len(outcome.noticed) == 1 else 0.0), 3)


def label(score: float) -> str:
    return "easy" if score < 0.25 else "medium" if score < 0.55 else "hard"


def instruction(mutant: Mutant, outcome: Outcome, *, show: Show = "nothing") -> str:
    """What fails and how, from one failing test; not the place, unless `show` lets code follow."""
    test = min(outcome.noticed, key=lambda name: (not outcome.noticed[name].what, len(name), name))
    failure = outcome.noticed[test]
    count = len(outcome.noticed)
    others = f" {count - 1} other test{'s' * (count != 2)} fail{'s' * (count == 2)} too." if count > 1 else ""
    shown = f" at\n\n{_indented(failure.at)}\n\n" if failure.at else ""
    if failure.what and not names_the_place(failure.what, mutant):
        shown += f"{'' if shown else ' '}with\n\n{_indented(failure.what)}\n\n"
    shown = shown or ".\n\n"
    text = (
        f'A recent change broke something in this code: the test for "{readable(test)}" (`{test.split("[")[0]}`) fails{shown}'
        f"It used to pass.{others} Find the mistake in the source and mend it; the tests are right.\n"
    )
    if show == "nothing":
        return text
    code = mutant.source if show == "module" else function_text(mutant.source, mutant.function)
    named = f"`{mutant.path}` is" if show == "module" else f"The mistake is in `{mutant.function}` of `{mutant.path}`"
    text = f"{text}\n{named}:\n\n```python\n{code.rstrip()}\n```\n"
    if show != "line" or not mutant.wrong:
        return text
    wrong = "\n".join(mutant.wrong)
    return f"{text}\nWhat is wrong there:\n\n```python\n{wrong}\n```\n"


def names_the_place(reason: str, mutant: Mutant) -> bool:
    """Some messages quote the line they come from, or count lines."""
    lines = mutant.source.splitlines()
    wrong = lines[mutant.line - 1].strip() if mutant.line <= len(lines) else ""
    return mutant.path in reason or bool(re.search(r"\blines? \d", reason)) or (len(wrong) > 12 and wrong in reason)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def write_mutant(
    found: Found, parent: Path, *, split: str, tags: Sequence[str] = (), show: Show = "nothing"
) -> tuple[Path, str]:
    """Write `parent/<base>-<key>/`; returns it and its difficulty."""
    base, mutant, outcome = found.base, found.mutant, found.outcome
    score = difficulty_score(base, mutant, outcome)
    family = [f"bug:{found.bug}"] if found.bug else []
    with tempfile.TemporaryDirectory(prefix="agentgym-mutant-") as scratch:
        bug, after = Path(scratch) / "bug", base.tree
        bug.mkdir()
        if base.upload:
            copy_tree(base.tree, bug)
        if found.healthy is not None:
            after = Path(scratch) / "healthy"
            copy_tree(base.tree, after)
            (after / mutant.path).write_text(found.healthy, encoding="utf-8", newline="")
        (bug / mutant.path).parent.mkdir(parents=True, exist_ok=True)
        (bug / mutant.path).write_text(mutant.source, encoding="utf-8", newline="")
        recipe = FilesRecipe(
            id=f"{base.name}-{mutant.key}",
            title=f"A mistake in {base.name}",
            instruction=instruction(mutant, outcome, show=show),
            dockerfile=base.dockerfile,
            context=base.context,
            before=bug,
            after=after,
            source=frozenset([mutant.path]),
            tests=base.tests,
            test_paths=base.test_paths,
            test_command=base.test_command,
            fail_to_pass=list(outcome.noticed),
            pass_to_pass=list(outcome.passing),
            difficulty=label(score),
            split=split,
            licence=base.licence,
            tags=["mutation", f"operator:{mutant.operator}", f"base:{base.name}", f"score:{score}", *family, *tags],
            overlay=bug,
        )
        return write_files_task(recipe, parent), label(score)
