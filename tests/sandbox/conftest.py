"""One backend per module and kind this machine has, the same small image in all of them.

`sandbox` is shared by the tests of a module, which leave it usable; `start` gives fresh ones for those that do not. All
share the module's event loop (`pytestmark = pytest.mark.asyncio(loop_scope="module")`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from agentgym.sandbox import ManagedBackend, open_backend
from agentgym.sandbox.protocol import BackendUnavailable, Image, ImageSpec, Limits, Sandbox, SandboxBackend

CONTEXT = Path(__file__).parent / "image"
SMALL = {"memory_mb": 256, "pids": 128}

Start = Callable[..., Awaitable[Sandbox]]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["docker", "kubernetes", "local"])
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[ManagedBackend]:
    if request.param == "kubernetes" and not os.environ.get("AGENTGYM_KUBERNETES"):
        pytest.skip("no development cluster: k8s/dev/with starts one for a command (make test KUBERNETES=1 does)")
    try:
        opened = await open_backend(request.param, owner="tests")
    except BackendUnavailable as error:
        pytest.skip(f"no {request.param} backend on this machine: {error}")
    yield opened
    await opened.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def image(backend: SandboxBackend) -> Image:
    """Debian with a shell, coreutils, git and Python, and a workdir that holds hello.txt."""
    text = (CONTEXT / "Dockerfile").read_bytes()
    spec = ImageSpec(
        name="contract-tests", digest="sha256:" + hashlib.sha256(text).hexdigest(), context=CONTEXT, workdir="/testbed"
    )
    return await backend.ensure_image(spec)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: SandboxBackend, image: Image) -> Sandbox:
    return await backend.start(image, Limits(**SMALL))


@pytest_asyncio.fixture(loop_scope="module")
async def start(backend: SandboxBackend, image: Image) -> AsyncIterator[Start]:
    """Starts fresh sandboxes from the test image (or the one given), closed when the test ends."""
    started: list[Sandbox] = []

    async def start(image: Image = image, **limits: float) -> Sandbox:
        started.append(await backend.start(image, Limits(**{**SMALL, **limits})))  # pyright: ignore[reportArgumentType]
        return started[-1]

    yield start
    for sandbox in started:
        await sandbox.close()


@pytest_asyncio.fixture(loop_scope="module")
async def fresh(start: Start) -> Sandbox:
    return await start()
