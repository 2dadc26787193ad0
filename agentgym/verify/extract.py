"""The agent's work as a patch: what its workspace holds now, against what the image held before.

The workspace leaves the sandbox as data (`agentgym.verify.workspace`) and is compared on the host with the image's
pristine tree (`agentgym.verify.pristine`). The sandbox's own `.git`, its configuration, hooks, attributes, filters
and git binary play no part: committing, resetting, stashing or deleting `.git` changes nothing. Left out are caches,
files that the *image's* `.gitignore` excludes and its commit does not track, and test-owned paths. This is about
fidelity, not trust: grading checks every path again, so a forged patch gains nothing.
"""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path

from agentgym.sandbox.protocol import Image, Sandbox, SandboxBackend
from agentgym.tasks.model import Task
from agentgym.verify.grade import Patch
from agentgym.verify.ownership import CACHES, is_shared_config, owned_changes
from agentgym.verify.pristine import Pristine, cached, of_image
from agentgym.verify.trees import Node, Trees, blob_oid
from agentgym.verify.workspace import SYSTEM_PATH, File, UnreadableWorkspace, read_workspace, unpack

MAX_PATCH_BYTES = 4 * 1024 * 1024


async def extract_patch(
    sandbox: Sandbox,
    task: Task,
    *,
    backend: SandboxBackend | None = None,
    image: Image | None = None,
    max_bytes: int = MAX_PATCH_BYTES,
) -> Patch:
    """The diff of the workspace against the image, binary-safe, with untracked files; the sandbox is only read.

    image: the task's, for a sandbox that was started from a snapshot; default: what the sandbox was started from.
    The pristine tree comes from the host's cache (filled by `pristine.capture` on a fresh sandbox, and by every
    grading), else from a sandbox of `backend`, else from the root commit the sandbox itself reports. A workspace or
    diff over its cap, or one that cannot be read although the sandbox answers, gives `truncated`: no solution. Raises
    SandboxError where the sandbox failed.
    """
    image = image or sandbox.image
    pristine = cached(image)
    if pristine is None and backend is not None:
        pristine = await of_image(image, backend, task.limits)
    with tempfile.TemporaryDirectory(prefix="agentgym-extract-") as folder:
        if pristine is None:
            pristine = await _reported_by_sandbox(sandbox, task.workdir, Path(folder, "base"))
        try:
            files = await read_workspace(sandbox, task.workdir)
        except UnreadableWorkspace:
            return Patch(diff=b"", truncated=True)
        trees = Trees(Path(folder, "now"), base=pristine.repository)
        return await asyncio.to_thread(_diff, trees, pristine, files, task, max_bytes)


def _diff(trees: Trees, pristine: Pristine, files: Mapping[str, File], task: Task, max_bytes: int) -> Patch:
    changes = _changes(trees, pristine, files)
    tree_hash = trees.write_tree(pristine.tree, changes)
    shared = {path: pristine.nodes[path] for path in changes if is_shared_config(path) and path in pristine.nodes}
    owned = owned_changes(changes, trees.files(shared), task.test_paths, ())
    solution = trees.write_tree(pristine.tree, {path: file for path, file in changes.items() if path not in owned})
    diff = trees.diff(pristine.tree, solution)
    if len(diff) > max_bytes:
        return Patch(diff=b"", tree_hash=tree_hash, truncated=True)
    return Patch(diff=diff, tree_hash=tree_hash)


def _changes(trees: Trees, pristine: Pristine, files: Mapping[str, File]) -> dict[str, File | None]:
    """Added and changed files, and removed ones (None), without caches and ignored files."""
    changes: dict[str, File | None] = {path: None for path in pristine.nodes if path not in files}
    for path, file in files.items():
        if pristine.nodes.get(path) != Node(file.mode, blob_oid(file.data)):
            changes[path] = file
    changes = {path: file for path, file in changes.items() if not CACHES.search(path)}
    untracked = [path for path in changes if path not in pristine.tracked]
    ignored = trees.ignored(pristine.ignore_rules(), untracked)
    return {path: file for path, file in changes.items() if path not in ignored}


async def _reported_by_sandbox(sandbox: Sandbox, workdir: str, repository: Path) -> Pristine:
    """The workspace's root commit as the sandbox tells it: for a first episode on an image no one has captured. Never
    cached.
    """
    script = (
        f"cd {shlex.quote(workdir)} && export PATH={SYSTEM_PATH} GIT_INDEX_FILE=$(mktemp -u) && base=$(mktemp -d)"
        " && root=$(git -c safe.directory='*' rev-list --max-parents=0 --all | tail -n 1)"
        ' && git -c safe.directory="*" read-tree "$root" && git -c safe.directory="*" checkout-index -a --prefix="$base/"'
        ' && cd "$base" && tar -cf - . ; rm -rf "$base" "$GIT_INDEX_FILE"'
    )
    result = await sandbox.exec(f"{{ {script}; }} 2>/dev/null", timeout=120.0, output_limit=256_000_000)
    try:
        files = unpack(result.output)
    except UnreadableWorkspace:
        files = {}
    trees = await asyncio.to_thread(Trees, repository)
    tree = await asyncio.to_thread(trees.write_tree, None, dict(files))
    return Pristine(repository, tree, frozenset(files), trees.nodes(tree))


__all__ = ["MAX_PATCH_BYTES", "extract_patch"]
