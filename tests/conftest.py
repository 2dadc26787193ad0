"""What all tests share: where the real rows lie, and which Python has vLLM. Servers that tests start stand in `servers.py`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import agentgym  # noqa: F401 - before any test loads torch: it decides how torch's threads wait

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The directory of real rows, logs and templates; tests that need it are skipped where it is absent."""
    path = Path(os.environ.get("AGENTGYM_SHARED", REPOSITORY.parent / "shared"))
    if not path.is_dir():
        pytest.skip(f"real rows are not here: {path} (set AGENTGYM_SHARED)")
    return path


@pytest.fixture(scope="session")
def vllm_python() -> str:
    """A Python of its own that has vLLM, since vLLM pins another torch than ours."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    python = os.environ.get("AGENTGYM_VLLM_PYTHON") or str(cache / "agentgym" / "vllm-venv" / "bin" / "python")
    if not Path(python).exists():
        pytest.skip(f"no vLLM: {python} does not exist (name a Python that has it with AGENTGYM_VLLM_PYTHON)")
    return python
