"""Who owns pods, in a form that the cluster and any later process can judge.

Every pod carries the same lease as things in other engines (`labels.py`), as annotations, so that a reaper on the owner's machine
sees at once that the owner is dead. For reapers elsewhere, and for the cluster, each backend keeps one `Lease` object: its
`renewTime` is the heartbeat, and every pod names it as its owner, so that deleting the Lease deletes them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from agentgym.sandbox import labels
from agentgym.sandbox.kubernetes.api import Api
from agentgym.sandbox.kubernetes.errors import ApiError
from agentgym.sandbox.kubernetes.template import INSTANCE, KIND
from agentgym.sandbox.protocol import TransportError

_YOUNG_S = 60.0
"""So old must a pod be before the lack of a Lease counts against it: both are not made at one instant."""


class Ownership:
    """One backend's Lease. `reference`: for the `ownerReferences` of its pods, None before `open`."""

    def __init__(self, api: Api, namespace: str, instance: str, owner: labels.Owner, lease_s: int) -> None:
        self._api = api
        self._path = leases(namespace)
        self._name = f"agentgym-{instance}"
        self._instance = instance
        self._owner = owner
        self._lease_s = lease_s
        self._beating: asyncio.Task[None] | None = None
        self.reference: dict[str, Any] | None = None

    async def open(self) -> None:
        """Creates the Lease and keeps it fresh."""
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self._name,
                "labels": {KIND: "owner", INSTANCE: self._instance},
                "annotations": labels.lease("sandbox", self._owner, 10 * 365 * 86400.0),
            },
            "spec": {
                "holderIdentity": f"{self._owner.host}/{self._owner.pid}",
                "leaseDurationSeconds": self._lease_s,
                **_renewal(),
            },
        }
        try:
            made = await self._api.request("POST", self._path, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":  # made by a request whose answer was lost
                raise
            made = await self._api.request("GET", f"{self._path}/{self._name}")
        self.reference = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "name": self._name,
            "uid": made["metadata"]["uid"],
        }
        self._beating = asyncio.create_task(self._beat())

    async def close(self) -> None:
        if self._beating is None:
            return
        self._beating.cancel()
        await asyncio.gather(self._beating, return_exceptions=True)
        try:
            await self._api.request("DELETE", f"{self._path}/{self._name}")
        except ApiError as error:
            if error.status != 404:
                raise

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / 9)
            try:
                await self._api.request("PATCH", f"{self._path}/{self._name}", {"spec": _renewal()})
            except (ApiError, TransportError):
                continue  # whoever misses the heartbeats will judge; there is nothing else to do about it here


def leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def _renewal() -> dict[str, str]:
    return {"renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}


def expired(lease: Mapping[str, Any]) -> bool:
    """True where the owner of this Lease has not been heard of for longer than it promised, or is known to be dead."""
    if labels.abandoned(lease["metadata"].get("annotations") or {}):
        return True
    spec = lease.get("spec") or {}
    try:
        renewed = datetime.fromisoformat(spec["renewTime"])
    except (KeyError, ValueError):
        return False  # not a Lease of ours, whatever it says
    return (datetime.now(UTC) - renewed).total_seconds() > spec.get("leaseDurationSeconds", 0)


def abandoned(pod: Mapping[str, Any], leases: Mapping[str, Mapping[str, Any]]) -> bool:
    """True where this pod may be removed. leases: by instance, all that exist."""
    metadata = pod["metadata"]
    if labels.abandoned(metadata.get("annotations") or {}):
        return True
    if lease := leases.get((metadata.get("labels") or {}).get(INSTANCE, "")):
        return expired(lease)
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    return (datetime.now(UTC) - created).total_seconds() > _YOUNG_S
