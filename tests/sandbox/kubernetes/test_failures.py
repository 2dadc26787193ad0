"""What a cluster does to sandboxes arrives under its own name, on a real one."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from agentgym.sandbox.kubernetes.api import Api
from agentgym.sandbox.kubernetes.backend import KubernetesBackend
from agentgym.sandbox.kubernetes.config import KubernetesConfig
from agentgym.sandbox.kubernetes.errors import (
    ApiError,
    Deleted,
    Evicted,
    ImageUnavailable,
    LifetimeOver,
    OutOfMemory,
    Preempted,
    QuotaFull,
    Refused,
    Unschedulable,
)
from agentgym.sandbox.kubernetes.template import KIND
from agentgym.sandbox.protocol import BackendUnavailable, Image, Limits, Sandbox, SandboxGone

pytestmark = pytest.mark.asyncio(loop_scope="module")

TINY = Limits(cpus=0.5, memory_mb=128, pids=64, disk_mb=64)
Open = Callable[..., Awaitable[KubernetesBackend]]


def pods(config: KubernetesConfig) -> str:
    return f"/api/v1/namespaces/{config.namespace}/pods"


async def names(api: Api, config: KubernetesConfig) -> set[str]:
    listed = await api.request("GET", pods(config), query=[("labelSelector", f"{KIND}=sandbox")])
    return {pod["metadata"]["name"] for pod in listed["items"] if "deletionTimestamp" not in pod["metadata"]}


async def repeat(sandbox: Sandbox, command: str, *, seconds: float) -> None:
    """Runs a command again and again, until it fails for good."""
    async with asyncio.timeout(seconds):
        while True:
            await sandbox.exec(command)


# -- before anything ran --------------------------------------------------------------------------------------------------


async def test_an_image_the_node_cannot_get_and_no_pod_is_left(
    backend: KubernetesBackend, image: Image, api: Api, config: KubernetesConfig
):
    before = await names(api, config)
    with pytest.raises(ImageUnavailable, match="no-such-registry") as error:
        await backend.start(replace(image, ref="no-such-registry.invalid/x:1"), TINY)
    assert not error.value.retry_safe
    assert error.value.hint
    assert await names(api, config) <= before


async def test_no_node_fits(open_with: Open, image: Image):
    backend = await open_with(node_selector={"no-such": "node"}, start_timeout_s=2)
    with pytest.raises(Unschedulable, match="0/1 nodes are available") as error:
        await backend.start(image, TINY)
    assert error.value.retry_safe


async def test_more_than_the_largest_sandbox_is_refused(backend: KubernetesBackend, image: Image):
    with pytest.raises(Refused, match="maximum memory usage per Container") as error:
        await backend.start(image, Limits(memory_mb=70 << 10))
    assert not error.value.retry_safe


async def test_a_full_quota_is_waited_for(open_with: Open, image: Image, api: Api, config: KubernetesConfig):
    backend = await open_with(quota_timeout_s=60)
    impatient = await open_with(quota_timeout_s=1)
    first = await backend.start(image, TINY)
    quota = f"/api/v1/namespaces/{config.namespace}/resourcequotas/sandboxes"
    usual = (await api.request("GET", quota))["spec"]["hard"]["pods"]
    await api.request("PATCH", quota, {"spec": {"hard": {"pods": "1"}}})
    try:
        await _until(lambda: _quota_says(api, quota, "1"))
        with pytest.raises(QuotaFull, match="exceeded quota") as error:
            await impatient.start(image, TINY)
        assert error.value.retry_safe
        waiting = asyncio.create_task(backend.start(image, TINY))
        await asyncio.sleep(1)
        assert not waiting.done()
        await first.close()
        async with asyncio.timeout(40):
            second = await waiting
        assert (await second.exec("echo in")).output == b"in\n"
    finally:
        await api.request("PATCH", quota, {"spec": {"hard": {"pods": usual}}})


async def test_no_cluster_and_no_namespace_are_unavailable_with_a_hint(config: KubernetesConfig, tmp_path):
    with pytest.raises(BackendUnavailable, match="no cluster is configured") as error:
        await KubernetesBackend.open("tests", config.model_copy(update={"kubeconfig": tmp_path / "none"}))
    assert error.value.hint
    nowhere = tmp_path / "nowhere"
    assert config.kubeconfig is not None
    nowhere.write_text(config.kubeconfig.read_text().replace("127.0.0.1:6443", "127.0.0.1:1"))
    with pytest.raises(BackendUnavailable, match="does not answer"):
        await KubernetesBackend.open("tests", config.model_copy(update={"kubeconfig": nowhere}))


# -- while it ran -----------------------------------------------------------------------------------------------------------


async def test_deleted_by_somebody_also_for_a_call_on_its_way(
    backend: KubernetesBackend, image: Image, api: Api, config: KubernetesConfig
):
    sandbox = await backend.start(image, TINY)
    call = asyncio.create_task(sandbox.exec("sleep 100"))
    await asyncio.sleep(0.5)
    await api.request("DELETE", f"{pods(config)}/{sandbox.id}")
    with pytest.raises(Deleted):
        async with asyncio.timeout(30):
            await call
    with pytest.raises(SandboxGone):
        await sandbox.exec("true")
    with pytest.raises(SandboxGone):
        await sandbox.snapshot()
    await sandbox.close()


async def test_the_lifetime_is_kept_by_the_cluster(backend: KubernetesBackend, image: Image):
    sandbox = await backend.start(image, replace(TINY, lifetime_s=4))
    with pytest.raises(LifetimeOver):
        await repeat(sandbox, "sleep 1", seconds=30)


async def test_memory_of_the_whole_sandbox(backend: KubernetesBackend, image: Image):
    """Given processes that fill the memory limit together, then some of them die, or PID 1 does and the sandbox with it."""
    sandbox = await backend.start(image, replace(TINY, memory_mb=64))
    hog = "python3 -c 'import time; x = bytearray(40 << 20); time.sleep(20)' & "
    try:
        result = await sandbox.exec(hog * 4 + "wait; echo survived", timeout=40)
    except OutOfMemory:
        return
    assert result.oom_killed
    assert (await sandbox.exec("echo alive")).output == b"alive\n"


async def test_more_disk_than_its_limit_is_an_eviction(backend: KubernetesBackend, image: Image):
    sandbox = await backend.start(image, replace(TINY, disk_mb=20))
    with pytest.raises(Evicted, match="ephemeral"):
        await repeat(sandbox, "for i in $(seq 5); do head -c 15000000 /dev/zero > /tmp/f$i; done; sleep 2", seconds=150)


async def test_preempted_by_something_more_important(open_with: Open, image: Image, api: Api, config: KubernetesConfig):
    """Given a node whose CPUs are taken by a sandbox, when a pod of higher priority needs them, then the sandbox goes."""
    listed = await api.request("GET", "/api/v1/nodes")
    free = float(listed["items"][0]["status"]["allocatable"]["cpu"])
    backend = await open_with(cpu_request_share=1.0, priority_class="agentgym-sandbox")
    sandbox = await backend.start(image, replace(TINY, cpus=free * 0.6))
    important = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "important", "namespace": "kube-system"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "priorityClassName": "system-cluster-critical",
            "containers": [{"name": "c", "image": image.ref, "imagePullPolicy": "Never", "command": ["sleep", "60"],
                            "resources": {"requests": {"cpu": f"{int(free * 600)}m"}}}],
        },
    }  # fmt: skip
    await api.request("POST", "/api/v1/namespaces/kube-system/pods", important)
    try:
        with pytest.raises(Preempted):
            await repeat(sandbox, "sleep 0.5", seconds=60)
    finally:
        with contextlib.suppress(ApiError):
            await api.request(
                "DELETE", "/api/v1/namespaces/kube-system/pods/important", query=[("gracePeriodSeconds", "0")]
            )


async def _until(holds, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not await holds():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.2)


async def _quota_says(api: Api, path: str, value: str) -> bool:
    return (await api.request("GET", path)).get("status", {}).get("hard", {}).get("pods") == value
