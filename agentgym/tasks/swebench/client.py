"""Find the environment that has the benchmarks' packages, and ask its worker.

Looked for in this order: the Python named by AGENTGYM_SWEBENCH_PYTHON, this one if it has swebench 4, and the environment
that `make swebench` makes in the cache. The worker is started at the first question and kept (importing swebench takes
seconds); one that does not answer in time, or dies, is replaced at the next question.
"""

from __future__ import annotations

import atexit
import importlib.metadata
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from agentgym.errors import AgentGymError, MachineError
from agentgym.sandbox.paths import cache_dir

PYTHON_VARIABLE = "AGENTGYM_SWEBENCH_PYTHON"
START_SECONDS = 120.0
READ_SECONDS = 60.0


class MissingPackage(MachineError):
    """No Python here has the benchmarks' packages."""


class NotRunnable(AgentGymError):
    """The package knows no way to run this row, or to read its log; the message says why."""


class PackageFailed(AgentGymError):
    """The package's own code failed, or did not end in time."""


@dataclass(frozen=True, slots=True)
class LogVerdicts:
    """verdicts: of every expected test. resolved: the benchmark's own word for solved. read: tests found in the log."""

    verdicts: Mapping[str, str]
    resolved: bool
    read: int


def find_python() -> Path:
    """The Python that has swebench 4; raises MissingPackage."""
    named = os.environ.get(PYTHON_VARIABLE)
    if named:
        return Path(named)
    try:
        if importlib.metadata.version("swebench").startswith("4."):
            return Path(sys.executable)
    except importlib.metadata.PackageNotFoundError:
        pass
    cached = cache_dir() / "swebench-venv/bin/python"
    if cached.exists():
        return cached
    raise MissingPackage(
        "rows of SWE-bench and its family are run and read by the `swebench` package, which is not here",
        hint=f"make swebench (or name a Python that has swebench 4 in {PYTHON_VARIABLE})",
    )


class BenchmarkPackage:
    """One worker process; safe to use from several threads, which take turns."""

    def __init__(self, python: Path) -> None:
        self._python = python
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        atexit.register(self.close)

    def versions(self) -> Mapping[str, str]:
        return self._ask({"op": "version"}, START_SECONDS)

    def spec(self, benchmark: str, row: Mapping[str, Any], sources: Path | None) -> Mapping[str, Any]:
        """How to run the row; raises NotRunnable with what the package lacks for it."""
        request = {"op": "spec", "benchmark": benchmark, "row": dict(row), "sources": str(sources) if sources else None}
        return self._ask(request, START_SECONDS)

    def read(self, parser: str, log: str, fail_to_pass: Iterable[str], pass_to_pass: Iterable[str]) -> LogVerdicts:
        """What the log says of the expected tests; raises PackageFailed where reading it does not end."""
        request = {
            "op": "read",
            "parser": parser,
            "log": log,
            "fail_to_pass": list(fail_to_pass),
            "pass_to_pass": list(pass_to_pass),
        }
        return LogVerdicts(**self._ask(request, READ_SECONDS))

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def _ask(self, request: Mapping[str, Any], seconds: float) -> Any:
        with self._lock:
            process = self._process
            if process is None or process.poll() is not None:
                process = self._start()
                seconds += START_SECONDS
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps(request, default=str).encode() + b"\n")
                process.stdin.flush()
                reply = json.loads(self._line(process, seconds))
            except (OSError, ValueError, TimeoutError) as error:
                self.close()
                raise PackageFailed(f"the benchmark's package did not answer: {error}") from error
        if "refused" in reply:
            raise NotRunnable(reply["refused"])
        if "failed" in reply:
            raise PackageFailed(f"the benchmark's package failed: {reply['failed']}")
        return reply["ok"]

    def _start(self) -> subprocess.Popen[bytes]:
        worker = Path(__file__).with_name("worker.py")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GIT_"))}
        self._buffer = b""
        # What lies beside the worker is not to be what an import over there finds.
        environment["PYTHONSAFEPATH"] = "1"
        self._process = subprocess.Popen(
            [self._python, str(worker)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env=environment, start_new_session=True,
        )  # fmt: skip
        return self._process

    def _line(self, process: subprocess.Popen[bytes], seconds: float) -> bytes:
        assert process.stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not ready.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError(f"no answer within {seconds:g} s")
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    raise OSError(f"it ended with exit code {process.wait()}")
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


@cache
def package() -> BenchmarkPackage:
    """The worker that this process shares; raises MissingPackage."""
    return BenchmarkPackage(find_python())


__all__ = [
    "BenchmarkPackage",
    "LogVerdicts",
    "MissingPackage",
    "NotRunnable",
    "PackageFailed",
    "find_python",
    "package",
]
