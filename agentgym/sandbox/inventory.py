"""Which images this machine holds, for both backends, and how to get their disk space back.

A task image can always be built again from its task, and a base from its recipe, so pruning loses time, not work. What a
live sandbox stands on is never removed: the engine refuses it, and the local backend looks at the leases.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import docker
from docker.errors import APIError

from agentgym.sandbox import images
from agentgym.sandbox.layers import LocalImage, image_path, layer_root, remove_tree
from agentgym.sandbox.paths import state_dir
from agentgym.sandbox.protocol import ImageError


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """One image. name: the task's. size: bytes, layers it shares with others included; None where nobody measured."""

    backend: Literal["docker", "local"]
    kind: Literal["base", "task"]
    ref: str
    name: str
    digest: str
    size: int | None
    created: datetime


def docker_images(client: docker.APIClient) -> list[ImageInfo]:
    """The bases and task images in the engine, newest first."""
    found: list[ImageInfo] = []
    for entry in client.images():
        labels = entry.get("Labels") or {}
        for tag in entry.get("RepoTags") or []:
            if tag.startswith("agentgym/base:") or (tag.startswith("agentgym/task:") and images.SPEC_LABEL in labels):
                kind = "base" if tag.startswith("agentgym/base:") else "task"
                name = labels.get(images.NAME_LABEL, tag.rpartition(":")[2])
                created = datetime.fromtimestamp(entry["Created"], UTC)
                found.append(ImageInfo("docker", kind, tag, name, entry["Id"], entry["Size"], created))
    return sorted(found, key=lambda info: info.created, reverse=True)


def local_images(*, measure: bool = True) -> list[ImageInfo]:
    """The images of the local backend, newest first. measure: look at every file of theirs, which takes a while."""
    found: list[ImageInfo] = []
    for path in image_path("x").parent.glob("*.json"):
        with contextlib.suppress(ImageError):
            image = LocalImage.load(path)
            created = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            size = sum(tree_size(Path(layer)) for layer in image.layers) if measure else None
            found.append(ImageInfo("local", "task", str(path), image.name, image.digest, size, created))
    return sorted(found, key=lambda info: info.created, reverse=True)


def prune_docker(client: docker.APIClient, *, bases: bool = False) -> list[ImageInfo]:
    """Remove task images (and bases, if asked) that no container uses; returns what went."""
    removed: list[ImageInfo] = []
    for info in docker_images(client):
        if info.kind == "base" and not bases:
            continue
        with contextlib.suppress(APIError):  # in use
            client.remove_image(info.ref)
            removed.append(info)
    return removed


def prune_local(*, everything: bool = False) -> int:
    """Remove layers that no image needs, or `everything`: all images too. Returns the bytes freed.

    Not while images are built: a layer is unreferenced until the image it is for is complete.
    """
    if everything:
        for path in image_path("x").parent.glob("*.json"):
            path.unlink(missing_ok=True)
    needed = set(_layers(image_path("x").parent.glob("*.json"))) | set(_in_use())
    freed = 0
    for layer in layer_root().glob("*"):
        if str(layer) not in needed:
            freed += tree_size(layer)
            remove_tree(layer)
    return freed


def _layers(records: Iterable[Path]) -> Iterable[str]:
    for path in records:
        with contextlib.suppress(ImageError):
            yield from LocalImage.load(path).layers


def _in_use() -> Iterable[str]:
    """Layers below live sandboxes and snapshots."""
    return _layers((state_dir() / "local").glob("agentgym-*/image.json"))


def tree_size(root: Path) -> int:
    """Bytes on disk of the files below `root`."""
    total = 0
    for directory, _, files in os.walk(root):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(directory, name)).st_blocks * 512
    return total
