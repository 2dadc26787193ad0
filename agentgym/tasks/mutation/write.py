"""A mutant that tests notice, as a task directory: the healthy image with one module replaced."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from agentgym.tasks.files_task import FilesRecipe, write_files_task
from agentgym.tasks.instructions import readable
from agentgym.tasks.mutation.bases import Base
from agentgym.tasks.mutation.mutants import Mutant
from agentgym.tasks.mutation.trial import Outcome

HELD_OUT_SHARE = 5
"""One module in this many is held out, with all its bugs."""


def split_of(base: Base, module: str) -> str:
    """`held-out` or `train`, decided by the source module alone, so that no module is on both sides."""
    digest = hashlib.sha256(f"{base.name}/{module}".encode()).digest()
    return "held-out" if digest[0] % HELD_OUT_SHARE == 0 else "train"


def difficulty_score(base: Base, mutant: Mutant, outcome: Outcome) -> float:
    """0 (easy) to 1: how much code to read (function, module), and how little the failing tests point at the place."""
    lines = (base.tree / mutant.path).read_text(encoding="utf-8", errors="replace").count("\n")
    name = mutant.function.rsplit(".", 1)[-1].strip("_").lower()
    named = any(name in test.lower().replace("_", "") or name in test.lower() for test in outcome.noticed)
    reading = min(mutant.length / 80, 1.0) * 0.35 + min(lines / 800, 1.0) * 0.35
    return round(reading + (0.0 if named else 0.2) + (0.1 if len(outcome.noticed) == 1 else 0.0), 3)


def label(score: float) -> str:
    return "easy" if score < 0.25 else "medium" if score < 0.55 else "hard"


def instruction(base: Base, outcome: Outcome) -> str:
    """What fails and how, from one failing test; neither the module nor the line."""
    test = min(outcome.noticed, key=lambda name: (not outcome.noticed[name], len(name)))
    reason = outcome.noticed[test].replace("`", "'")
    count = len(outcome.noticed)
    others = f" {count - 1} other test{'s' * (count != 2)} fail{'s' * (count == 2)} too." if count > 1 else ""
    shown = f" with\n\n    {reason}\n\n" if reason else ".\n\n"
    return (
        f'A recent change broke something in this code: the test for "{readable(test)}" (`{test.split("[")[0]}`) fails{shown}'
        f"It used to pass.{others} Find the mistake in the source and mend it; the tests are right.\n"
    )


def write_mutant(base: Base, mutant: Mutant, outcome: Outcome, parent: Path) -> Path:
    """Write `parent/<base>-<key>/`; returns it."""
    score = difficulty_score(base, mutant, outcome)
    with tempfile.TemporaryDirectory(prefix="agentgym-mutant-") as scratch:
        bug = Path(scratch)
        (bug / mutant.path).parent.mkdir(parents=True, exist_ok=True)
        (bug / mutant.path).write_text(mutant.source, encoding="utf-8")
        recipe = FilesRecipe(
            id=f"{base.name}-{mutant.key}",
            title=f"A mistake in {base.name}",
            instruction=instruction(base, outcome),
            dockerfile=f"{base.dockerfile}COPY bug/ /testbed/\n",
            context={**base.context, "bug": bug},
            before=bug,
            after=base.tree,
            source=frozenset([mutant.path]),
            tests=base.tests,
            test_paths=base.test_paths,
            test_command=base.test_command,
            fail_to_pass=list(outcome.noticed),
            pass_to_pass=list(outcome.passing),
            difficulty=label(score),
            split=split_of(base, mutant.path),
            licence=base.licence,
            tags=["mutation", f"operator:{mutant.operator}", f"base:{base.name}", f"score:{score}"],
        )
        return write_files_task(recipe, parent)
