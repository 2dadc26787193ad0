"""One image for many tasks that differ in a few files: the files are laid into each sandbox as it starts.

A family of a thousand bugs would be a thousand images that differ in their last layer. Its tasks declare that layer
(`ImageSpec.overlay`); the managed backend has the engine build what is below it, once, and lays the files over the workdir
before anybody acts in the sandbox. The workdir is then made one commit anew, as `finish` does in an image, so nothing of what
was overwritten can be read. To everything above, such a sandbox is one of an image of its own, with its own digest; to the
engine and the warm pool all of the family are alike.

An engine used by itself builds the whole Dockerfile, and runs the same thing.
"""

from __future__ import annotations

import hashlib
import shlex
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from agentgym.sandbox.archive import pack
from agentgym.sandbox.finish import COMMIT
from agentgym.sandbox.paths import cache_dir
from agentgym.sandbox.protocol import Image, ImageError, ImageSpec, Sandbox, StartError

_COMMIT = f"if command -v git >/dev/null 2>&1; then {COMMIT} fi"


def below(spec: ImageSpec) -> ImageSpec:
    """What is to be built for `spec`: itself, or the image below its overlay."""
    if spec.overlay is None or spec.context is None:
        return spec
    context = cache_dir() / "contexts" / spec.overlay.below.removeprefix("sha256:")[:32]
    if not context.exists():
        context.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=context.parent, prefix=".part-") as scratch:
            part = Path(scratch, "context")
            _copy_below(spec, spec.context, spec.overlay.folder, part)
            try:
                part.rename(context)
            except OSError:
                if not context.exists():  # else another process was faster, with the same
                    raise
    return replace(spec, digest=spec.overlay.below, context=context, overlay=None)


def _copy_below(spec: ImageSpec, context: Path, folder: str, target: Path) -> None:
    shutil.copytree(context, target, symlinks=True, ignore=_at_the_top(context, folder))
    text, _, last = (target / "Dockerfile").read_text(encoding="utf-8").rstrip().rpartition("\n")
    if last.split()[:1] != ["COPY"]:
        raise ImageError(f"image {spec.name!r}: the Dockerfile ends with {last!r}, not with a COPY of the overlay")
    (target / "Dockerfile").write_text(f"{text}\n", encoding="utf-8")


def _at_the_top(context: Path, folder: str) -> Callable[[str, list[str]], set[str]]:
    return lambda directory, names: {folder} & set(names) if Path(directory) == context else set()


def above(spec: ImageSpec, image: Image) -> Image:
    """The image of `spec`, given that of `below(spec)`."""
    if spec.overlay is None:
        return image
    digest = hashlib.sha256(f"{image.digest}\n{spec.digest}".encode()).hexdigest()
    return replace(image, spec=spec, digest=f"sha256:{digest}")


def without(image: Image) -> Image:
    """What the engine starts for `image`, and what a snapshot is, whose files hold the overlay already."""
    return replace(image, spec=replace(image.spec, overlay=None))


async def lay(sandbox: Sandbox) -> None:
    """Lay the overlay of its image into a sandbox in which nobody has acted; StartError where that fails."""
    spec = sandbox.image.spec
    if spec.overlay is None or spec.context is None:
        return
    archive = BytesIO()
    pack(spec.context / spec.overlay.folder, "/", archive, uid=0, gid=0, new_parents=[])
    command = f"set -e; cd {shlex.quote(spec.workdir)}; tar -xf - --no-same-owner; {_COMMIT}"
    done = await sandbox.exec(command, stdin=archive.getvalue(), timeout=120.0)
    if done.exit_code != 0:
        raise StartError(f"the overlay of {spec.name} cannot be laid into {sandbox.id}: {done.text[-500:].strip()}")
