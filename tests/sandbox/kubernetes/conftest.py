"""A real cluster: the development one (`k8s/dev/with` starts it), an own backend per module, and the API behind its back."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from agentgym.sandbox.kubernetes.api import Api
from agentgym.sandbox.kubernetes.backend import KubernetesBackend
from agentgym.sandbox.kubernetes.config import KubernetesConfig
from agentgym.sandbox.protocol import Image, ImageSpec

CONTEXT = Path(__file__).parents[1] / "image"

Open = Callable[..., Awaitable[KubernetesBackend]]


@pytest.fixture(scope="session")
def config() -> KubernetesConfig:
    if not os.environ.get("AGENTGYM_KUBERNETES"):
        pytest.skip("no development cluster: k8s/dev/with starts one for a command (make test KUBERNETES=1 does)")
    return KubernetesConfig.load()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(config: KubernetesConfig) -> AsyncIterator[Api]:
    api = await Api.connect(config)
    yield api
    await api.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend(config: KubernetesConfig) -> AsyncIterator[KubernetesBackend]:
    backend = await KubernetesBackend.open("tests", config)
    yield backend
    await backend.close()


@pytest_asyncio.fixture(loop_scope="module")
async def open_with(config: KubernetesConfig) -> AsyncIterator[Open]:
    """Backends whose config differs from the cluster's by what is given; they do not prove the network again."""
    opened: list[KubernetesBackend] = []

    async def open_with(**changes: object) -> KubernetesBackend:
        opened.append(await KubernetesBackend.open("tests", config.model_copy(update=changes)))
        opened[-1]._prepared = asyncio.create_task(opened[-1]._ownership.open())
        return opened[-1]

    yield open_with
    for backend in opened:
        await backend.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def image(backend: KubernetesBackend) -> Image:
    digest = "sha256:" + hashlib.sha256((CONTEXT / "Dockerfile").read_bytes()).hexdigest()
    return await backend.ensure_image(
        ImageSpec(name="contract-tests", digest=digest, context=CONTEXT, workdir="/testbed")
    )
