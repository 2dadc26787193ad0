"""The `harbor` package's own trajectory models, which say what ATIF is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HARBOR = "harbor==0.26.0"
_PROGRAM = """
import json, sys
from harbor.models.trajectories import Trajectory
faults = []
for path in sys.argv[1:]:
    for number, line in enumerate(open(path, encoding="utf-8")):
        try:
            Trajectory.model_validate_json(line)
        except ValueError as error:
            faults.append(f"{path}:{number}: {error}")
print(json.dumps(faults))
"""


@pytest.fixture(scope="session")
def harbor_faults() -> Callable[..., list[str]]:
    """What harbor's models find wrong with files of one ATIF document per line.

    The package asks for Python 3.12 and dependencies that clash with ours; its models need pydantic alone, so it is
    unpacked bare into a cache and read by a child process.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentgym" / "anchors" / HARBOR
    if not (cache / "complete").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-requires-python"]
        done = subprocess.run([*command, "--upgrade", "--target", cache, HARBOR], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{HARBOR} cannot be installed: {done.stderr.strip()[-300:]}")
        (cache / "complete").touch()

    def check(*paths: Path) -> list[str]:
        command = [sys.executable, "-c", _PROGRAM, *map(str, paths)]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(cache)}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found: Any = json.loads(done.stdout)
        return found

    return check
