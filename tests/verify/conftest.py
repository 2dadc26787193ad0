"""The tutorial task and a real backend: every test of this room judges work that happened in a live sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import BackendUnavailable, Image, SandboxBackend
from agentgym.tasks import Task, load_task

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def tutorial() -> Task:
    return load_task(REPOSITORY / "environments" / "tutorial-duration")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def backend() -> AsyncIterator[SandboxBackend]:
    try:
        opened = await open_backend("auto", owner="tests/verify")
    except BackendUnavailable as error:
        pytest.skip(f"no sandbox backend on this machine: {error}")
    yield opened
    await opened.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def image(backend: SandboxBackend, tutorial: Task) -> Image:
    return await backend.ensure_image(tutorial.image)
