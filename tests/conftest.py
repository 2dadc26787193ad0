"""What all tests share: where the real rows lie."""

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
