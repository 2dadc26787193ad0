"""Image trees of the `local` backend: read-only layers in the cache, stacked by overlayfs.

    layers/<key>/          a directory tree; complete if it exists, for it is renamed into place
    images/<key>.json      an image: its layers, bottom first, and what the Dockerfile set
    tmp/                   layers in the making; what is there without a lock on its key is rubbish

Layers are named by what made them (parent, instruction, environment, copied files), so images that begin alike share
them and a build goes on where an interrupted one stopped.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from agentgym.sandbox.jail import SANDBOX_UID
from agentgym.sandbox.paths import cache_dir
from agentgym.sandbox.protocol import ImageError


@dataclass(frozen=True, slots=True)
class LocalImage:
    """layers: absolute paths, bottom first. env, workdir: what commands start with. notes: what a reader should know."""

    name: str
    digest: str
    layers: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    notes: tuple[str, ...] = ()

    @property
    def lower(self) -> list[Path]:
        """For overlayfs: topmost first."""
        return [Path(layer) for layer in reversed(self.layers)]

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        temporary.write_text(json.dumps(asdict(self), indent=1))
        temporary.rename(path)

    @classmethod
    def load(cls, path: Path) -> LocalImage:
        """ImageError where the record is missing or one of its layers is."""
        try:
            raw = json.loads(path.read_text())
            image = cls(
                raw["name"], raw["digest"], tuple(raw["layers"]), raw["env"], raw["workdir"], tuple(raw["notes"])
            )
        except (OSError, ValueError, KeyError) as error:
            raise ImageError(f"no usable local image at {path}: {error}", hint="build it again") from error
        if missing := [layer for layer in image.layers if not Path(layer).is_dir()]:
            raise ImageError(f"image {image.name}: layer {missing[0]} is gone", hint="build it again")
        return image


def layer_root() -> Path:
    return cache_dir() / "local" / "layers"


def image_path(key: str) -> Path:
    return cache_dir() / "local" / "images" / f"{key}.json"


def remove_tree(path: Path) -> None:
<<<<<<< HEAD
    """Remove a tree also where a sandbox left directories nobody may enter, and while another process removes it too.

    Missing is fine. OSError where something is left.
    """
=======
    """Remove a tree also where a sandbox left directories nobody may enter; what another reaper removed first is fine."""
>>>>>>> sandbox-docker
    for directory, names, _ in os.walk(path):
        for name in names:
            entry = os.path.join(directory, name)
            with contextlib.suppress(FileNotFoundError):
                mode = os.lstat(entry).st_mode
                if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
                    os.chmod(entry, 0o700)
<<<<<<< HEAD
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        raise OSError(f"cannot remove {path} completely")
=======
    shutil.rmtree(path, onerror=_unless_missing)


def _unless_missing(function: object, path: str, error: tuple[type[BaseException], BaseException, object]) -> None:
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]
>>>>>>> sandbox-docker


def give_to_sandbox(tree: Path) -> None:
    """As root, sandboxes run under a user of their own, who must own what they may write."""
    if os.geteuid() != 0:
        return
    for directory, names, files in os.walk(tree):
        for name in (".", *names, *files):
            os.lchown(os.path.join(directory, name), SANDBOX_UID, SANDBOX_UID)
