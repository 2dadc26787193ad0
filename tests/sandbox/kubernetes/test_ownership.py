"""Whose a pod is and whether that owner lives, seen from its machine or by its heartbeat; and that the cluster cleans up."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentgym.sandbox import labels
from agentgym.sandbox.kubernetes.api import Api
from agentgym.sandbox.kubernetes.backend import KubernetesBackend
from agentgym.sandbox.kubernetes.config import KubernetesConfig
from agentgym.sandbox.kubernetes.ownership import Ownership, abandoned, expired, leases
from agentgym.sandbox.protocol import Image, Limits

cluster = pytest.mark.asyncio(loop_scope="module")

TINY = Limits(cpus=0.5, memory_mb=128, pids=64, disk_mb=64)
ME = labels.Owner.current("tests")
ELSEWHERE = replace(ME, host="another-machine", pid=1)


def stamp(seconds_ago: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def lease(owner: labels.Owner, renewed_s_ago: float) -> dict[str, Any]:
    return {
        "metadata": {"annotations": labels.lease("sandbox", owner, 1e6)},
        "spec": {"renewTime": stamp(renewed_s_ago), "leaseDurationSeconds": 180},
    }


def pod(owner: labels.Owner, *, lifetime_s: float = 60, created_s_ago: float = 0) -> dict[str, Any]:
    return {
        "metadata": {
            "labels": {"agentgym/instance": "i"},
            "annotations": labels.lease("sandbox", owner, lifetime_s),
            "creationTimestamp": stamp(created_s_ago).split(".")[0] + "Z",
        }
    }


def test_a_pod_is_judged_by_its_owner_and_the_heartbeat():
    cases = [
        (pod(ME), {"i": lease(ME, 0)}, False),
        (pod(replace(ME, started=1)), {"i": lease(ME, 0)}, True),  # the process is dead, and this machine can see it
        (pod(ELSEWHERE), {"i": lease(ELSEWHERE, 100)}, False),
        (pod(ELSEWHERE), {"i": lease(ELSEWHERE, 200)}, True),  # not heard of
        (pod(ELSEWHERE, lifetime_s=-1), {"i": lease(ELSEWHERE, 0)}, True),  # its own time is over
        (pod(ELSEWHERE), {}, False),  # too young to tell
        (pod(ELSEWHERE, created_s_ago=90), {}, True),  # its owner has closed
        (pod(ELSEWHERE), {"i": {"metadata": {}, "spec": {"renewTime": "soon"}}}, False),  # not a Lease of ours
    ]
    for index, (thing, owners, expected) in enumerate(cases):
        assert abandoned(thing, owners) is expected, index


@cluster
async def test_the_heartbeat_goes_on_while_the_owner_lives(api: Api, config: KubernetesConfig):
    ownership = Ownership(api, config.namespace, "heart", ELSEWHERE, lease_s=9)
    await ownership.open()
    try:
        path = f"{leases(config.namespace)}/agentgym-heart"
        first = (await api.request("GET", path))["spec"]["renewTime"]
        await asyncio.sleep(2.5)
        later = await api.request("GET", path)
        assert later["spec"]["renewTime"] > first
        assert not expired(later)
    finally:
        await ownership.close()
    assert not [
        x
        for x in (await api.request("GET", leases(config.namespace)))["items"]
        if x["metadata"]["name"] == "agentgym-heart"
    ]


@cluster
async def test_without_its_lease_the_cluster_itself_removes_a_pod(
    backend: KubernetesBackend, image: Image, api: Api, config: KubernetesConfig
):
    """Given a backend, when somebody deletes its Lease, then its pods go by their owner reference, with nobody's help."""
    other = await KubernetesBackend.open("tests", config)
    try:
        sandbox = await other.start(image, TINY)
        path = f"/api/v1/namespaces/{config.namespace}/pods/{sandbox.id}"
        reference = (await api.request("GET", path))["metadata"]["ownerReferences"][0]
        await api.request("DELETE", f"{leases(config.namespace)}/{reference['name']}")
        async with asyncio.timeout(60):
            while True:
                listed = await api.request("GET", path.rpartition("/")[0])
                if sandbox.id not in {pod["metadata"]["name"] for pod in listed["items"]}:
                    break
                await asyncio.sleep(0.3)
    finally:
        await other.close()
