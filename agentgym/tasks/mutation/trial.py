"""Which tests notice a bug? One sandbox of the healthy image, one mutant after the other.

The code under trial is a package's own, with one node changed, so a plain report file is enough here: what a trial finds is
checked again by validation, with the grader, before anybody is paid for it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentgym.sandbox.protocol import Sandbox
from agentgym.tasks.model import TaskError
from agentgym.tasks.mutation.bases import Base
from agentgym.tasks.mutation.mutants import Mutant

_PLUGIN = """
import json, os

outcomes, reasons = {}, {}

def pytest_runtest_logreport(report):
    if report.failed or (report.when == "call" and report.skipped):
        outcomes[report.nodeid] = "failed"
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None:
            reasons.setdefault(report.nodeid, crash.message.splitlines()[0][:200] if crash.message else "")
    elif report.when == "call":
        outcomes.setdefault(report.nodeid, "passed")

def pytest_sessionfinish(session):
    with open(os.environ["TRIAL_REPORT"], "w") as out:
        json.dump({"outcomes": outcomes, "reasons": reasons}, out)
"""
_HOME = "/tmp/trial"


@dataclass(frozen=True, slots=True)
class Outcome:
    """noticed: tests that fail because of the bug, with the first line of each failure. passing: those that still pass."""

    noticed: Mapping[str, str] = field(default_factory=dict)
    passing: tuple[str, ...] = ()
    hung: bool = False


class Trial:
    """Open with `start`; `run` one mutant at a time."""

    def __init__(self, base: Base, sandbox: Sandbox) -> None:
        self._base = base
        self._sandbox = sandbox
        self._stable: set[str] = set()
        self._limit = 300.0

    async def start(self) -> None:
        """Run the healthy tests twice; raises TaskError where none passes."""
        await self._sandbox.write_file(f"{_HOME}/trial_plugin.py", _PLUGIN.encode())
        first, seconds = await self._tests()
        second, more = await self._tests()
        if first is None or second is None:
            raise TaskError(f"{self._base.name}: its own tests do not run to an end")
        runs = (first["outcomes"], second["outcomes"])
        self._stable = {test for test in runs[0] if all(run.get(test) == "passed" for run in runs)}
        if not self._stable:
            raise TaskError(f"{self._base.name}: none of its own tests passes")
        self._limit = 20.0 + 4 * max(seconds, more)

    async def run(self, mutant: Mutant) -> Outcome:
        """What the tests say of this mutant; the healthy module is back in place afterwards."""
        path = f"{self._sandbox.image.spec.workdir}/{mutant.path}"
        healthy = (self._base.tree / mutant.path).read_bytes()
        await self._sandbox.write_file(path, mutant.source.encode())
        try:
            report, _ = await self._tests()
        finally:
            await self._sandbox.write_file(path, healthy)
        if report is None:
            return Outcome(hung=True)
        outcomes, reasons = report["outcomes"], report["reasons"]
        noticed = {test: reasons.get(test, "") for test in sorted(self._stable) if outcomes.get(test) != "passed"}
        return Outcome(noticed, tuple(sorted(self._stable - noticed.keys())))

    async def _tests(self) -> tuple[dict[str, dict[str, str]] | None, float]:
        modules = [test for test in self._base.tests if _is_test_module(test)]
        command = shlex.join([*self._base.test_command, "-p", "trial_plugin", *modules])
        await self._sandbox.exec(f"rm -f {_HOME}/report.json")
        result = await self._sandbox.exec(
            f'PYTHONPATH={_HOME}:"$PYTHONPATH" {command}',
            cwd=self._sandbox.image.spec.workdir,
            env={
                "TRIAL_REPORT": f"{_HOME}/report.json",
                "PYTHONHASHSEED": "0",
                "TZ": "UTC",
                "LC_ALL": "C.UTF-8",
                "COLUMNS": "200",
            },
            timeout=self._limit,
        )
        report = await self._sandbox.exec(f"cat {_HOME}/report.json", output_limit=64_000_000)
        return (json.loads(report.output) if report.exit_code == 0 else None), result.duration


def _is_test_module(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return name.endswith(".py") and (
        name.startswith("test_") or name.endswith("_test.py") or name in ("tests.py", "test.py")
    )
