"""What all tests share: where the real rows lie, which Python has vLLM, and how `make test` deals them to its processes.

Servers that tests start stand in `servers.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

import agentgym  # noqa: F401 - before any test loads torch: it decides how torch's threads wait

REPOSITORY = Path(__file__).resolve().parents[1]
ROOMS = (
    "tests/sandbox/",
    "tests/trainer/online/",
    "tests/harness/gateway/",
    "tests/harness/policies/",
    "tests/cli/test_interrupt.py",
    "tests/cli/test_quickstart.py",
)
"""Dealt whole and first, since they last longest: what is in one of these shares an engine's objects or a server."""


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    config.option.loadscopereorder = False  # its order is by the number of tests; ours is by what lasts longest
    return Rooms(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: ROOMS.index(room) if (room := room_of(item.nodeid)) in ROOMS else len(ROOMS))


class Rooms(LoadScopeScheduling):
    """Files that share costly fixtures go to one process together, as do the tests of each file."""

    def _split_scope(self, nodeid: str) -> str:
        return room_of(nodeid)


def room_of(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return next((room for room in ROOMS if file.startswith(room)), file)


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
