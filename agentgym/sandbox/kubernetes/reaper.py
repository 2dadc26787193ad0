"""Removes from a cluster, and from this machine, what dead or expired owners left: pods, Leases, stored snapshots.

Judged from labels, annotations and Leases alone. What carries no label of ours is never touched; what another reaper got to first
is no error and is not counted.
"""

from __future__ import annotations

import asyncio
import time

from agentgym.sandbox.kubernetes import snapshot
from agentgym.sandbox.kubernetes.api import Api
from agentgym.sandbox.kubernetes.errors import ApiError
from agentgym.sandbox.kubernetes.ownership import abandoned, expired, leases
from agentgym.sandbox.kubernetes.template import INSTANCE, KIND

_PATIENCE_S = 60.0


async def reap(api: Api, namespace: str, *, everything: bool = False) -> int:
    """How many sandboxes and snapshots were removed; returns once the pods are really gone. everything: also of the living."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    owners = await _listed(api, leases(namespace), f"{KIND}=owner")
    by_instance = {lease["metadata"]["labels"][INSTANCE]: lease for lease in owners}
    due = [
        pod["metadata"]
        for pod in await _listed(api, pods, f"{KIND} in (sandbox, probe)")
        if everything or abandoned(pod, by_instance)
    ]
    removed = await asyncio.gather(*(_remove(api, f"{pods}/{pod['name']}", pod["uid"]) for pod in due))
    for lease in owners:
        if everything or expired(lease):
            await _remove(api, f"{leases(namespace)}/{lease['metadata']['name']}", lease["metadata"]["uid"])
    await _await_end(api, pods, {pod["uid"] for pod in due})
    return sum(removed) + await asyncio.to_thread(snapshot.reap, everything=everything)


async def _listed(api: Api, path: str, selector: str) -> list[dict]:
    return (await api.request("GET", path, query=[("labelSelector", selector)])).get("items") or []


async def _remove(api: Api, path: str, uid: str) -> int:
    try:
        await api.request("DELETE", path, {"preconditions": {"uid": uid}})
    except ApiError as error:
        if error.status in (404, 409):  # gone, or another of that name by now
            return 0
        raise
    return 1


async def _await_end(api: Api, path: str, uids: set[str]) -> None:
    """Until none of these pods is left; at most a minute, for a node that is gone never says that a pod is."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if not uids & {pod["metadata"]["uid"] for pod in await _listed(api, path, KIND)}:
            return
        await asyncio.sleep(0.3)
