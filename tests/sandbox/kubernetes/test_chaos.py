"""The cluster's own troubles in mid-run: its API server restarts, its node is cordoned, pods are deleted under their owner."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from agentgym.sandbox.kubernetes.api import Api
from agentgym.sandbox.kubernetes.backend import KubernetesBackend
from agentgym.sandbox.kubernetes.config import KubernetesConfig
from agentgym.sandbox.kubernetes.errors import Unschedulable
from agentgym.sandbox.protocol import Image, Limits, SandboxGone, TransportError

pytestmark = pytest.mark.asyncio(loop_scope="module")

START = Path(__file__).parents[3] / "k8s" / "dev" / "start"
TINY = Limits(cpus=0.5, memory_mb=128, pids=64, disk_mb=64)


@pytest.fixture
def api_server(config: KubernetesConfig) -> Path:
    """The process id file of the development cluster's API server."""
    assert config.kubeconfig is not None
    path = config.kubeconfig.parents[1] / "apiserver.pid"
    if not path.exists() or os.geteuid() != 0:
        pytest.skip("not a cluster of our own, whose API server could be killed")
    return path


async def test_an_api_server_that_restarts_costs_the_call_under_way_and_no_sandbox(
    backend: KubernetesBackend, image: Image, api_server: Path
):
    sandbox = await backend.start(image, TINY)
    await sandbox.exec("cd /tmp; export KEPT=1", stateful=True)
    call = asyncio.create_task(sandbox.exec("sleep 60; echo never"))
    await asyncio.sleep(0.5)
    os.kill(int(api_server.read_text()), signal.SIGKILL)
    restart = asyncio.create_task(asyncio.to_thread(subprocess.run, [str(START)], check=True, capture_output=True))
    with pytest.raises(TransportError) as error:
        await asyncio.wait_for(call, 100)
    assert not isinstance(error.value, SandboxGone)
    assert error.value.retry_safe
    await restart
    assert (await sandbox.exec("pwd; echo $KEPT", stateful=True)).output == b"/tmp\n1\n"
    fresh = await backend.start(image, TINY)  # the watch has come back too
    assert (await fresh.exec("echo in")).output == b"in\n"
    await fresh.close()
    await sandbox.close()


async def test_a_cordoned_node_keeps_what_runs_and_takes_nothing_new(open_with, image: Image, api: Api):
    backend = await open_with(start_timeout_s=3)
    sandbox = await backend.start(image, TINY)
    name = (await api.request("GET", "/api/v1/nodes"))["items"][0]["metadata"]["name"]
    await api.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    try:
        with pytest.raises(Unschedulable, match="unschedulable"):
            await backend.start(image, TINY)
        assert (await sandbox.exec("echo alive")).output == b"alive\n"
    finally:
        await api.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})


async def test_many_pods_deleted_at_once_leave_nothing_hanging(
    backend: KubernetesBackend, image: Image, api: Api, config: KubernetesConfig
):
    sandboxes = await asyncio.gather(*(backend.start(image, TINY) for _ in range(4)))
    calls = [asyncio.create_task(sandbox.exec("sleep 100")) for sandbox in sandboxes]
    await asyncio.sleep(0.5)
    began = time.monotonic()
    for sandbox in sandboxes:
        await api.request("DELETE", f"/api/v1/namespaces/{config.namespace}/pods/{sandbox.id}")
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one).__mro__[1] for one in ended] == [SandboxGone] * 4
    assert time.monotonic() - began < 40
    await asyncio.gather(*(sandbox.close() for sandbox in sandboxes))
