"""One owner's dealings with one namespace: create pods and wait for them, start processes in them, delete them.

Says why in every case where a pod does not come up or is no longer there (`verdict.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence

from agentgym.sandbox.kubernetes import verdict
from agentgym.sandbox.kubernetes.api import Api, Thing
from agentgym.sandbox.kubernetes.config import KubernetesConfig
from agentgym.sandbox.kubernetes.errors import ApiError, Deleted, QuotaFull, Refused
from agentgym.sandbox.kubernetes.pods import Pods, Seen
from agentgym.sandbox.kubernetes.stream import PodStream
from agentgym.sandbox.kubernetes.template import INSTANCE
from agentgym.sandbox.labels import Owner
from agentgym.sandbox.protocol import SandboxError, SandboxGone, StartError, TransportError

_TELLING = ("Preempted", "TaintManagerEviction")
"""Events that are no warnings to the cluster, but say why a pod went."""

_QUOTA_PAUSE_S = 1.0
_SETTLE_S = 5.0
"""How long to look for the reason when a process cannot be started in a pod that seems to run."""


class Cluster:
    def __init__(self, api: Api, config: KubernetesConfig, owner: Owner, instance: str) -> None:
        self.owner = owner
        self._api = api
        self._config = config
        self._path = f"/api/v1/namespaces/{config.namespace}/pods"
        self._events = f"/api/v1/namespaces/{config.namespace}/events"
        self._pods = Pods(api, self._path, f"{INSTANCE}={instance}")
        self._streams: set[PodStream] = set()

    async def create(self, manifest: Thing) -> None:
        """Creates the pod, waiting for room in the namespace's quota. QuotaFull, Refused, or StartError."""
        name = manifest["metadata"]["name"]
        deadline = time.monotonic() + self._config.quota_timeout_s
        while True:
            try:
                self._pods.add(await self._api.request("POST", self._path, manifest))
                return
            except ApiError as error:
                if error.reason == "AlreadyExists":  # by a request whose answer was lost: the name is random
                    self._pods.add(await self._api.request("GET", f"{self._path}/{name}"))
                    return
                if error.status == 404:
                    raise Refused(
                        f"there is no namespace {self._config.namespace}: {error.message}",
                        hint="kubectl apply -k k8s/sandboxes/dev (or k8s/overlays/...) makes it",
                    ) from error
                if not _quota_is_full(error):
                    kind = StartError if error.status >= 500 or error.status == 429 else Refused
                    raise kind(f"no pod in namespace {self._config.namespace}: {error}") from error
                if time.monotonic() > deadline:
                    raise QuotaFull(
                        f"no room in namespace {self._config.namespace}: {error.message}",
                        hint="raise the ResourceQuota, run fewer episodes at once, or `agentgym sandbox reap`",
                    ) from error
            await asyncio.sleep(_QUOTA_PAUSE_S)

    async def await_running(self, name: str) -> Thing:
        """The pod, once its container runs; the reason where it will not, or not in time."""

        def judge(seen: Seen) -> SandboxError | bool | None:
            if seen.gone:
                return Deleted(f"pod {name} was deleted while it was starting")
            return verdict.cannot_start(seen.pod) or (True if verdict.running(seen.pod) else None)

        found = await self._pods.until(name, judge, self._config.start_timeout_s)
        pod = self._pods.get(name).pod
        if found is None:
            raise verdict.too_late(pod, self._config.start_timeout_s, await self._said(name))
        if isinstance(found, Deleted):
            raise verdict.gone(pod, await self._said(name))
        if isinstance(found, SandboxError):
            raise found
        return pod

    async def exec(self, name: str, command: Sequence[str], *, stderr: bool = False) -> PodStream:
        """Starts a process. SandboxGone (with the reason) where the pod is over; TransportError where nothing gets through."""
        await self._require(name)
        query = [("command", word) for word in command]
        query += [("container", verdict.CONTAINER), ("stdin", "true"), ("stdout", "true"), ("tty", "false")]
        query += [("stderr", "true")] if stderr else []
        deadline = time.monotonic() + self._config.api_timeout_s
        pause = 0.2
        while True:
            try:
                socket = await self._api.upgrade(f"{self._path}/{name}/exec", query)
                break
            except (ApiError, TransportError) as error:
                await self._explain(name)
                refused = isinstance(error, ApiError) and error.status not in (429, 500, 502, 503, 504)
                if refused or time.monotonic() + pause > deadline:
                    raise TransportError(f"no process can be started in pod {name}: {error}") from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, 3.0)
        stream = PodStream(socket, f"pod {name}")
        self._streams = {other for other in self._streams if not other.ended} | {stream}
        return stream

    def nodes(self, *names: str) -> tuple[str, ...]:
        """The addresses of the nodes of these pods."""
        found = (self._pods.get(name).pod["status"].get("hostIP") for name in names)
        return tuple(dict.fromkeys(address for address in found if address))

    async def delete(self, name: str) -> None:
        """Asks for the pod's end and forgets it; one that is gone already is fine."""
        self._pods.forget(name)
        with contextlib.suppress(ApiError):
            await self._api.request("DELETE", f"{self._path}/{name}")

    async def close(self) -> None:
        await self._pods.close()
        for stream in self._streams:
            stream.close()
        await asyncio.gather(*(stream.closed() for stream in self._streams))

    async def _require(self, name: str) -> None:
        """Raises SandboxGone, with the reason, where the pod is known to be over."""
        try:
            seen = self._pods.get(name)
        except KeyError:
            raise SandboxGone(f"sandbox {name} is closed") from None
        if seen.gone:
            raise verdict.gone(seen.pod, await self._said(name))
        if (reason := verdict.over(seen.pod)) is not None:
            raise await self._why_deleted(seen, name) if isinstance(reason, Deleted) else reason

    async def _explain(self, name: str) -> None:
        """Looks at the pod itself: raises as `_require` does where it is over, returns where it seems alive or nobody answers."""
        try:
            await self._pods.refresh(name)
        except (ApiError, TransportError):
            return
        except KeyError:
            pass
        await self._require(name)

    async def _why_deleted(self, seen: Seen, name: str) -> SandboxError:
        """A pod that is being deleted does not say why; the cluster's events, or the next moments, may."""
        reason = verdict.gone(seen.pod, await self._said(name))
        if isinstance(reason, Deleted):
            await self._pods.until(name, lambda now: now.gone or not _only_deleted(now.pod) or None, _SETTLE_S)
            reason = verdict.gone(seen.pod, await self._said(name))
        return reason

    async def _said(self, name: str) -> str:
        """What the cluster last said about a pod, for people."""
        query = [("fieldSelector", f"involvedObject.name={name}")]
        try:
            listed = await self._api.request("GET", self._events, query=query, patience_s=2)
        except (ApiError, TransportError):
            return ""
        events = sorted(listed.get("items") or [], key=lambda event: event.get("lastTimestamp") or "")
        telling = [event for event in events if event.get("type") == "Warning" or event.get("reason") in _TELLING]
        return "; ".join(f"{event.get('reason')}: {event.get('message')}" for event in telling[-3:])


def _only_deleted(pod: Thing) -> bool:
    return isinstance(verdict.over(pod), Deleted)


def _quota_is_full(error: ApiError) -> bool:
    return error.status == 403 and "exceeded quota" in error.message
