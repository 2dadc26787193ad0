"""Other people's code that we measure against: each in a virtual environment of its own, made once and cached.

An anchor runs as a child process that answers one line of JSON per line it is sent, so that its calls can be measured
in turn with ours, in one run and under the same load.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def environment(name: str, requirements: list[str], *, without_dependencies: Sequence[str] = ()) -> Path:
    """The Python of a cached virtual environment that holds these packages. without_dependencies: installed bare."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentgym" / "anchors" / name
    python, mark = root / "bin" / "python", root / "complete.json"
    wanted = json.dumps([requirements, list(without_dependencies), sys.version_info[:2]])
    if not (mark.exists() and mark.read_text() == wanted):
        print(f"installing {name} into {root} (once)", file=sys.stderr)
        shutil.rmtree(root, ignore_errors=True)
        venv.create(root, with_pip=True)
        for packages, options in ((requirements, []), (without_dependencies, ["--no-deps"])):
            if packages:
                command = [
                    python,
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    *options,
                    *packages,
                ]
                subprocess.run(command, check=True, stdout=sys.stderr)
        mark.write_text(wanted)
    return python


_PRELUDE = """
import json, os, sys, time
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever the measured code prints is not an answer

def answer(value):
    print(json.dumps(value), file=answers, flush=True)

def requests():
    return map(json.loads, sys.stdin)
"""


class Anchor:
    """A child process that runs `program` under `python`; its first answer means that it is ready.

    The program finds `answer(value)`, `requests()` and the modules json, os, sys and time.
    """

    def __init__(self, python: Path, program: str, *arguments: str) -> None:
        self._command = [python, "-c", _PRELUDE + program, *arguments]

    def __enter__(self) -> Anchor:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self._read()
        except BaseException:
            self._end()
            raise
        return self

    def ask(self, request: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the anchor ended with exit code {self._process.wait()}; its reason is above")
        return json.loads(line)

    def _end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=120)

    def __exit__(self, *_: object) -> None:
        self._end()
