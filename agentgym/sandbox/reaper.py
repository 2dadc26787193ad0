"""Removes from a Docker Engine what dead or expired owners left behind, judged from labels alone.

Containers first (an image in use cannot go), then snapshots and unfinished builds. Cached images are not litter. What
carries no label of ours is never touched, and an object another reaper got to first is not an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentgym.sandbox.engine import Engine, EngineError
from agentgym.sandbox.labels import KIND, Kind, abandoned


async def reap(engine: Engine, *, everything: bool = False) -> int:
    """Returns how many objects were removed. everything: also those whose owners live."""
    removed = 0
    for container in await _labelled(engine, "/containers/json", {"all": "true"}):
        if _due(container, ("sandbox", "build"), everything):
            removed += await _remove(engine, f"/containers/{container['Id']}", {"force": "true", "v": "true"})
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
