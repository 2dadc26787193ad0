"""The pods of one owner as the API server sees them, kept current by a single list-and-watch.

However many sandboxes are open, the cost is one connection. A pod that disappears leaves its last state behind until its
sandbox has been told, so that the reason can still be read from it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from agentgym.sandbox.kubernetes.api import Api, Thing
from agentgym.sandbox.kubernetes.errors import ApiError
from agentgym.sandbox.protocol import TransportError

T = TypeVar("T")

_WATCH_S = 240


@dataclass(slots=True)
class Seen:
    """One pod. gone: the API no longer has it, and `pod` is what it was last."""

    pod: Thing
    gone: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Pods:
    """path: the collection, as in `/api/v1/namespaces/N/pods`. selector: which of them are this owner's."""

    def __init__(self, api: Api, path: str, selector: str) -> None:
        self._api = api
        self._path = path
        self._query = [("labelSelector", selector)]
        self._seen: dict[str, Seen] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, pod: Thing) -> None:
        """A pod that was just created; from now on it is watched."""
        self._seen.setdefault(pod["metadata"]["name"], Seen(pod))
        if self._task is None:
            self._task = asyncio.create_task(self._follow())

    def get(self, name: str) -> Seen:
        return self._seen[name]

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)

    async def refresh(self, name: str) -> Seen:
        """Asks about one pod now, not waiting for the watch."""
        seen = self._seen[name]
        try:
            self._update(await self._api.request("GET", f"{self._path}/{name}"))
        except ApiError as error:
            if error.status != 404:
                raise
            seen.gone = True
            seen.changed.set()
        return seen

    async def until(self, name: str, judge: Callable[[Seen], T | None], seconds: float) -> T | None:
        """What `judge` says of a pod once it says anything; None if it has not after `seconds`."""
        seen = self._seen[name]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while (verdict := judge(seen)) is None:
                    seen.changed.clear()
                    await seen.changed.wait()
                return verdict
        return None

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        version: str | None = None
        while True:
            try:
                version = version or await self._list()
                query = [*self._query, ("resourceVersion", version), ("allowWatchBookmarks", "true")]
                async for kind, thing in self._api.watch(self._path, query, seconds=_WATCH_S):
                    version = thing["metadata"]["resourceVersion"]
                    if kind != "BOOKMARK":
                        self._update(thing, gone=kind == "DELETED")
            except (ApiError, TransportError):  # too old a version, or no server: look at everything anew
                version = None
                await asyncio.sleep(0.5)

    async def _list(self) -> str:
        answer = await self._api.request("GET", self._path, query=self._query)
        present = {thing["metadata"]["name"]: thing for thing in answer.get("items") or []}
        for name, seen in list(self._seen.items()):
            if name not in present and not seen.gone:
                await self.refresh(name)  # created after the list was made, or gone
        for thing in present.values():
            self._update(thing)
        return answer["metadata"]["resourceVersion"]

    def _update(self, pod: Thing, gone: bool = False) -> None:
        seen = self._seen.get(pod["metadata"]["name"])
        if seen is None or seen.gone:  # not of this backend, or closed already
            return
        if int(pod["metadata"]["resourceVersion"]) < int(seen.pod["metadata"]["resourceVersion"]):
            return  # the watch lags behind what was asked for directly
        seen.pod, seen.gone = pod, gone
        seen.changed.set()
