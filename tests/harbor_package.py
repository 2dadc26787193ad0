"""The `harbor` package, whose own models say what its formats are.

It asks for Python 3.12 and for dependencies that clash with ours; its models need very little of both. So it is unpacked
bare, with the few packages that they import, into a cache, and read by a child process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HARBOR = "harbor==0.26.0"
_BESIDE = ("toml==0.10.2", "pathspec==0.12.1")
_PRELUDE = """
import json, sys, typing, typing_extensions
typing.override = typing_extensions.override  # of Python 3.12
"""


def harbor_folder() -> Path:
    """Where `import harbor` finds it; skips the test where it cannot be installed."""
    cache = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentgym" / "anchors" / f"{HARBOR}-models"
    )
    if not (cache / "complete").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-requires-python"]
        done = subprocess.run(
            [*command, "--no-compile", "--upgrade", "--target", cache, HARBOR, *_BESIDE], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"{HARBOR} cannot be installed: {done.stderr.strip()[-300:]}")
        (cache / "complete").touch()
    return cache


def ask_harbor(program: str, *arguments: Path | str) -> Any:
    """What `program`, which prints one JSON document, says about its arguments."""
    command = [sys.executable, "-c", _PRELUDE + program, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(harbor_folder())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
