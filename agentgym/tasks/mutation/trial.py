"""Which tests notice a bug? Sandboxes of the healthy code, and in each a warm pytest that tries one mutant after the other.

A `Trial` is the code of one base in one sandbox; `run` gives it a batch of mutants. What runs there is `warm.py`.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence
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
    """noticed: tests that fail because of the bug, and how. passing: those that still pass."""

    noticed: Mapping[str, Failure] = field(default_factory=dict)
    passing: tuple[str, ...] = ()
    hung: bool = False


class Trial:
    """The healthy code in a sandbox, from `Workbench.open`; `run` one batch at a time."""

    def __init__(self, base: Base, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._base = base
        self._stable: set[str] = set()
        self._limits: list[float] | None = None

    async def run(self, mutants: Sequence[Mutant]) -> list[Outcome]:
        """What the tests say of each; the healthy module is back in place after each.

        The first time the healthy tests run twice before; raises TaskError where none passes both times.
        """
        if self._limits is not None:
            return [self._outcome(run) for run in await self._try(mutants)]
        first, second, *runs = await self._try([None, None, *mutants])
        self._learn(first, second)
        return [self._outcome(run) for run in runs]

    def trust(self, other: Trial) -> None:
        """Take over what another trial of the same base has learnt."""
        self._stable, self._limits = other._stable, other._limits

    def _learn(self, first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
        passed, again = first["outcomes"], second["outcomes"]
        if passed is None or again is None:
            raise TaskError(f"{self._base.name}: its own tests do not run to an end")
        self._stable = {test for test in passed if passed[test] == again.get(test) == "passed"}
        if not self._stable:
            raise TaskError(f"{self._base.name}: none of its own tests passes: {str(first['failures'])[:500]}")
        self._limits = second["limits"]

    def _outcome(self, run: Mapping[str, Any]) -> Outcome:
        outcomes = run["outcomes"]
        failures = {test: Failure(*failure) for test, failure in run["failures"].items()}
        if outcomes is None or any(failure.what.startswith("MemoryError") for failure in failures.values()):
            return Outcome(hung=True)
        noticed = {
            test: failures.get(test, Failure()) for test in sorted(self._stable) if outcomes.get(test) != "passed"
        }
        return Outcome(noticed, tuple(sorted(self._stable - noticed.keys())))

    async def _try(self, mutants: Sequence[Mutant | None]) -> list[dict[str, Any]]:
        orders = {
            "options": [*self._base.test_command[3:], "--no-summary", *filter(is_test_module, self._base.tests)],
            "limits": self._limits,
            "memory_mb": MEMORY_MB,
            "mutants": [{"path": mutant.path, "source": mutant.source} if mutant else None for mutant in mutants],
        }
        longest = self._limits[0] if self._limits else HEALTHY_LIMIT_S
        result = await self.sandbox.exec(
            f"exec {shlex.join([self._base.test_command[0], _TARGET])}",
            cwd=self.sandbox.image.spec.workdir,
            env=_ENV,
            stdin=json.dumps(orders).encode(),
            timeout=60.0 + longest * len(mutants),
            output_limit=256_000_000,
        )
        found = [json.loads(line) for line in result.output.splitlines() if line.startswith(b"{")]
        if len(found) != len(mutants):
            raise TaskError(
                f"{self._base.name}: the tests were tried on {len(found)} of {len(mutants)}: {result.text[-800:]}"
            )
        return found


class Workbench:
    """Sandboxes for trials, one base after the other in each: what runs there is healthy code with one node changed, every try
    is killed with all it started, and the code is laid anew for the next base.
    """

    def __init__(self, backend: SandboxBackend, kept: int) -> None:
        self._backend, self._kept = backend, kept
        self._free: list[Sandbox] = []

    async def open(self, base: Base, image: Image) -> Trial:
        """A sandbox with the healthy code. image: of `base.dockerfile`."""
        used = next((one for one in self._free if one.image.digest == image.digest), None)
        if used is not None:
            self._free.remove(used)
        sandbox = used or await self._backend.start(image)
        try:
            if base.upload:
                if used is not None:
                    await sandbox.exec(f"find {shlex.quote(image.spec.workdir)} -mindepth 1 -delete", cwd="/")
                await sandbox.upload(base.tree, image.spec.workdir)
            if used is None:
                await sandbox.write_file(_TARGET, _PROGRAM.read_bytes())
        except BaseException:
            await sandbox.close()
            raise
        return Trial(base, sandbox)

    async def give_back(self, trial: Trial) -> None:
        """Its sandbox serves the next trial of the same image, unless there are enough."""
        self._free.append(trial.sandbox)
        if len(self._free) > self._kept:
            await self._free.pop(0).close()

    async def close(self) -> None:
        await asyncio.gather(*(sandbox.close() for sandbox in self._free))
        self._free.clear()


def is_test_module(path: str) -> bool:
    """Does pytest collect this file by its own pattern, or is it one of the names that others use?"""
    name = path.rsplit("/", 1)[-1]
    return name.endswith(".py") and (
        name.startswith("test_") or name.endswith("_test.py") or name in ("tests.py", "test.py")
    )
