"""The network is proven closed before anything untrusted runs; a cluster that leaks is refused unless told in so many words."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agentgym.sandbox.kubernetes.api import Api
from agentgym.sandbox.kubernetes.backend import KubernetesBackend
from agentgym.sandbox.kubernetes.config import KubernetesConfig
from agentgym.sandbox.kubernetes.errors import NetworkLeak
from agentgym.sandbox.protocol import Image, Limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

TINY = Limits(cpus=0.5, memory_mb=128, pids=64, disk_mb=64)


@pytest_asyncio.fixture(loop_scope="module")
async def no_policy(api: Api, config: KubernetesConfig) -> AsyncIterator[None]:
    """The cluster as it is where nobody enforces the policy: the policy is away."""
    path = f"/apis/networking.k8s.io/v1/namespaces/{config.namespace}/networkpolicies"
    policy = await api.request("GET", f"{path}/deny-all")
    await api.request("DELETE", f"{path}/deny-all")
    yield
    metadata = {"name": "deny-all", "namespace": config.namespace}
    await api.request("POST", path, {**policy, "metadata": metadata})


async def test_a_closed_cluster_is_used(backend: KubernetesBackend, image: Image):
    sandbox = await backend.start(image, TINY)
    assert (await sandbox.exec("echo in")).output == b"in\n"


async def test_a_cluster_that_leaks_is_refused(config: KubernetesConfig, image: Image, no_policy: None):
    backend = await KubernetesBackend.open("tests", config)
    try:
        for _ in range(2):  # also when asked again
            with pytest.raises(NetworkLeak, match="reach the network") as error:
                await backend.start(image, TINY)
        assert "allow_network_leak" in (error.value.hint or "")
    finally:
        await backend.close()


async def test_unless_told_in_so_many_words(
    config: KubernetesConfig, image: Image, no_policy: None, caplog: pytest.LogCaptureFixture
):
    backend = await KubernetesBackend.open("tests", config.model_copy(update={"allow_network_leak": True}))
    try:
        with caplog.at_level(logging.WARNING):
            sandbox = await backend.start(image, TINY)
        assert (await sandbox.exec("echo in")).output == b"in\n"
        assert "allow_network_leak is set" in caplog.text
    finally:
        await backend.close()
