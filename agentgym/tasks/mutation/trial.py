"""Which tests notice a bug? Sandboxes of the healthy code, and in each a warm pytest that tries one mutant after the other.

A `Trial` is one sandbox; `run` gives it a batch of mutants. What runs there is `warm.py`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.sandbox.protocol import Image, Sandbox, SandboxBackend
from agentgym.tasks.model import TaskError
from agentgym.tasks.mutation.bases import Base
from agentgym.tasks.mutation.mutants import Mutant

HEALTHY_LIMIT_S = 300.0
MEMORY_MB = 1024
"""Address space of one try: a bug that builds without end meets this before it meets the sandbox's limit."""
_ENV = {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8", "COLUMNS": "200"}
_PROGRAM = Path(__file__).with_name("warm.py")
_TARGET = "/tmp/trial/warm.py"


@dataclass(frozen=True, slots=True)
class Failure:
    """at: the statement of the test that failed, "" where unknown. what: the error, with the values in it."""

    at: str = ""
    what: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """noticed: tests that fail because of the bug, and how. passing: those that still pass. seconds: of all tests."""

    noticed: Mapping[str, Failure] = field(default_factory=dict)
    passing: tuple[str, ...] = ()
    hung: bool = False
    seconds: float = 0.0


class Trial:
    """Made by `open_trial`; `run` one batch at a time."""

    def __init__(self, base: Base, sandbox: Sandbox) -> None:
        self._base = base
        self._sandbox = sandbox
        self._stable: set[str] = set()
        self._limit = HEALTHY_LIMIT_S

    async def learn(self) -> None:
        """Run the healthy tests twice; raises TaskError where none passes both times."""
        runs = await self._try([None, None])
        if any(run["outcomes"] is None for run in runs):
            raise TaskError(f"{self._base.name}: its own tests do not run to an end")
        first, second = (run["outcomes"] for run in runs)
        self._stable = {test for test in first if first[test] == second.get(test) == "passed"}
        if not self._stable:
            raise TaskError(f"{self._base.name}: none of its own tests passes: {str(runs[0]['failures'])[:500]}")
        self._limit = 5.0 + 10 * max(run["seconds"] for run in runs)

    def trust(self, other: Trial) -> None:
        """Take over what another trial of the same base has learnt."""
        self._stable, self._limit = other._stable, other._limit

    async def run(self, mutants: Sequence[Mutant]) -> list[Outcome]:
        """What the tests say of each; the healthy module is back in place after each."""
        return [self._outcome(run) for run in await self._try(mutants)]

    async def close(self) -> None:
        await self._sandbox.close()

    def _outcome(self, run: Mapping[str, Any]) -> Outcome:
        outcomes, seconds = run["outcomes"], run["seconds"]
        failures = {test: Failure(*failure) for test, failure in run["failures"].items()}
        if outcomes is None or any(failure.what.startswith("MemoryError") for failure in failures.values()):
            return Outcome(hung=True, seconds=seconds)
        noticed = {
            test: failures.get(test, Failure()) for test in sorted(self._stable) if outcomes.get(test) != "passed"
        }
        return Outcome(noticed, tuple(sorted(self._stable - noticed.keys())), seconds=seconds)

    async def _try(self, mutants: Sequence[Mutant | None]) -> list[dict[str, Any]]:
        orders = {
            "options": [*self._base.test_command[3:], *filter(is_test_module, self._base.tests)],
            "limit": self._limit,
            "memory_mb": MEMORY_MB,
            "mutants": [{"path": mutant.path, "source": mutant.source} if mutant else None for mutant in mutants],
        }
        result = await self._sandbox.exec(
            f"exec {shlex.join([self._base.test_command[0], _TARGET])}",
            cwd=self._sandbox.image.spec.workdir,
            env=_ENV,
            stdin=json.dumps(orders).encode(),
            timeout=60.0 + self._limit * len(mutants),
            output_limit=256_000_000,
        )
        found = [json.loads(line) for line in result.output.splitlines() if line.startswith(b"{")]
        if len(found) != len(mutants):
            raise TaskError(
                f"{self._base.name}: the tests were tried on {len(found)} of {len(mutants)}: {result.text[-800:]}"
            )
        return found


async def open_trial(base: Base, image: Image, backend: SandboxBackend) -> Trial:
    """A sandbox with the healthy code. image: of `base.dockerfile`."""
    sandbox = await backend.start(image)
    try:
        if base.upload:
            await sandbox.upload(base.tree, image.spec.workdir)
        await sandbox.write_file(_TARGET, _PROGRAM.read_bytes())
    except BaseException:
        await sandbox.close()
        raise
    return Trial(base, sandbox)


def is_test_module(path: str) -> bool:
    """Does pytest collect this file by its own pattern, or is it one of the names that others use?"""
    name = path.rsplit("/", 1)[-1]
    return name.endswith(".py") and (
        name.startswith("test_") or name.endswith("_test.py") or name in ("tests.py", "test.py")
    )


def batches(mutants: Iterable[Mutant], size: int) -> Iterable[list[Mutant]]:
    batch: list[Mutant] = []
    for mutant in mutants:
        batch.append(mutant)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
