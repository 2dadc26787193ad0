"""What the workspace of an image holds before anyone touches it, cached on the host by image digest.

Captured from a sandbox that nothing has acted in yet (its own git is still the image's), then immutable: extraction
diffs against it and grading builds on it. The cache is a bare git repository per digest, made beside its final name
and renamed into place, so concurrent captures agree and a killed one leaves only a temporary directory.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from agentgym.sandbox.protocol import Image, Limits, Sandbox, SandboxBackend, SandboxError
from agentgym.verify.trees import Node, Trees
from agentgym.verify.workspace import SYSTEM_PATH, UnreadableWorkspace, read_workspace


@dataclass(frozen=True, slots=True)
class Pristine:
    """repository: bare git repository with the objects. tree: the whole workspace, ignored files too. tracked: paths
    in the image's commit (all, where the workspace is no git repository). nodes: path -> mode and blob.
    """

    repository: Path
    tree: str
    tracked: frozenset[str]
    nodes: dict[str, Node]

    def ignore_rules(self) -> dict[str, bytes]:
        """The `.gitignore` files of the image; the agent's own do not count."""
        rules = {
            path: node
            for path, node in self.nodes.items()
            if path.split("/")[-1] == ".gitignore" and node.mode != "120000"
        }
        return {path: file.data for path, file in Trees(self.repository).files(rules).items()}


_loaded: dict[Path, Pristine] = {}


def _home(image: Image) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = hashlib.sha256(f"{image.backend} {image.digest} {image.spec.workdir}".encode()).hexdigest()[:32]
    return cache / "agentgym" / "pristine" / key


def cached(image: Image) -> Pristine | None:
    home = _home(image)
    if home not in _loaded and (home / "agentgym.json").exists():
        meta = json.loads((home / "agentgym.json").read_text())
        nodes = Trees(home).nodes(meta["tree"])
        tracked = frozenset(nodes) if meta["tracked"] is None else frozenset(meta["tracked"])
        _loaded[home] = Pristine(home, meta["tree"], tracked, nodes)
    return _loaded.get(home)


async def capture(sandbox: Sandbox) -> Pristine:
    """Read the workspace of a sandbox *that nothing has acted in yet*; a no-op where the image is known already."""
    known = cached(sandbox.image)
    if known is not None:
        return known
    workdir = sandbox.image.spec.workdir
    try:
        files = await read_workspace(sandbox, workdir)
    except UnreadableWorkspace as error:
        raise SandboxError(
            f"image {sandbox.image.ref}: {error}", hint=f"check that {workdir} exists and holds the task's files"
        ) from error
    listing = await sandbox.exec(
        f"cd {shlex.quote(workdir)} && PATH={SYSTEM_PATH} git -c safe.directory='*' ls-files -z --cached",
        timeout=60.0,
        output_limit=64_000_000,
    )
    tracked = [os.fsdecode(path) for path in listing.output.split(b"\0")[:-1]] if listing.exit_code == 0 else None

    def write() -> None:
        home = _home(sandbox.image)
        home.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=home.parent))
        try:
            tree = Trees(partial).write_tree(None, dict(files))
            (partial / "agentgym.json").write_text(
                json.dumps({"image": sandbox.image.ref, "tree": tree, "tracked": tracked})
            )
            partial.rename(home)
        except OSError:
            if not (home / "agentgym.json").exists():
                raise
            # Another process captured the same image first; its result is the same.
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    await asyncio.to_thread(write)
    pristine = cached(sandbox.image)
    assert pristine is not None
    return pristine


async def of_image(image: Image, backend: SandboxBackend, limits: Limits = Limits()) -> Pristine:
    """The pristine workspace of `image`, from the cache or from a sandbox started for it."""
    known = cached(image)
    if known is not None:
        return known
    sandbox = await backend.start(image, limits)
    try:
        return await capture(sandbox)
    finally:
        await sandbox.close()
