"""Removes from a Docker Engine what dead or expired owners left behind, judged from labels alone.

Containers first (an image in use cannot go), then snapshots and unfinished builds. Where one was found, it looks again a
moment later: a request that the dead owner had sent off may still become a container, and one that is going may not be
gone. Cached images are not litter. What carries no label of ours is never touched, and an object another reaper got to
first is not an error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from agentgym.sandbox.engine import Engine, EngineError
from agentgym.sandbox.labels import KIND, Kind, abandoned

_LOOKS = 5
_PAUSE_S = 1.0


async def reap(engine: Engine, *, everything: bool = False) -> int:
    """Returns how many objects were removed. everything: also those whose owners live."""
    removed = 0
    for look in range(_LOOKS):
        if look:
            await asyncio.sleep(_PAUSE_S)
        containers = await _labelled(engine, "/containers/json", {"all": "true"})
        due = [container for container in containers if _due(container, ("sandbox", "build"), everything)]
        for container in due:
            removed += await _remove(engine, f"/containers/{container['Id']}", {"force": "true", "v": "true"})
        if not due:
            break
    for image in await _labelled(engine, "/images/json", {}):
        if _due(image, ("snapshot", "build"), everything):
            for reference in image.get("RepoTags") or [image["Id"]]:
                name = image["Id"] if reference == "<none>:<none>" else reference
                removed += await _remove(engine, f"/images/{name}", {"noprune": "false"})
    return removed


def _due(thing: Mapping[str, Any], kinds: tuple[Kind, ...], everything: bool) -> bool:
    # By kind first: a container that somebody runs from an image of ours inherits the image's labels.
    labels = thing.get("Labels") or {}
    return labels.get(KIND) in kinds and (everything or abandoned(labels) is not None)


async def _labelled(engine: Engine, path: str, params: Mapping[str, str]) -> list[dict[str, Any]]:
    return await engine.json("GET", path, params={**params, "filters": json.dumps({"label": [KIND]})})


async def _remove(engine: Engine, path: str, params: Mapping[str, str]) -> int:
    try:
        await engine.json("DELETE", path, params=params)
    except EngineError as error:
        if error.status in (404, 409):  # gone, going, or still in use by something alive
            return 0
        try:  # an engine in the midst of removing it for another reaper answers 500
            await engine.json("GET", f"{path}/json")
        except EngineError as second:
            if second.status == 404:
                return 0
        raise
    return 1
