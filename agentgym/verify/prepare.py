"""Build the workspace that is graded: pristine tree + the solution's own changes + hidden tests, computed on the
host.

Everything is done on git trees, so there is no order of writes to race and no link to follow: what goes into the
sandbox is the difference between the final tree and the pristine one it already holds. The hidden tests are the
complete new state of `task.test_paths`: an image file that matches them and is not among the hidden tests is removed
(moved tests would be collected twice otherwise).
"""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.sandbox.protocol import Sandbox, SandboxError
from agentgym.tasks.model import Task, TaskError
from agentgym.tasks.paths import matches
from agentgym.tasks.sources import BenchmarkMaterial
from agentgym.verify.grade import Patch
from agentgym.verify.ownership import CACHES, is_shared_config, owned_changes
from agentgym.verify.pristine import Pristine, capture
from agentgym.verify.trees import PatchDoesNotApply, Trees
from agentgym.verify.workspace import EXECUTABLE, REGULAR, SYMLINK, SYSTEM_PATH, File, is_safe, pack


@dataclass(frozen=True, slots=True)
class Workspace:
    """What was written. hidden: the hidden tests by path. notes: changes that were dropped. pristine: the image's
    tree.
    """

    pristine: Pristine
    hidden: Mapping[str, File] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


async def prepare(sandbox: Sandbox, task: Task, patch: Patch) -> Workspace:
    """Write the graded workspace into a fresh `sandbox`. Raises PatchDoesNotApply, TaskError, SandboxError."""
    pristine = await capture(sandbox)
    hidden = await asyncio.to_thread(_hidden_tests, task, pristine)
    removed, written, notes = await asyncio.to_thread(_plan, pristine, task, patch, hidden)
    await _write(sandbox, task.workdir, removed, written)
    return Workspace(pristine, hidden, notes)


def _hidden_tests(task: Task, pristine: Pristine) -> Mapping[str, File]:
    if isinstance(task.material, BenchmarkMaterial):
        return _patched_tests(task, task.material, pristine)
    return _read_tree(task)


def _patched_tests(task: Task, material: BenchmarkMaterial, pristine: Pristine) -> Mapping[str, File]:
    """The test-owned files of the image, with the row's test patch applied to them."""
    with tempfile.TemporaryDirectory(prefix="agentgym-tests-") as folder:
        trees = Trees(Path(folder), base=pristine.repository)
        try:
            patched = trees.apply(pristine.tree, material.test_patch())
        except PatchDoesNotApply as error:
            raise TaskError(f"task {task.id}: its test patch does not fit its image: {error}") from error
        owned = {path: node for path, node in trees.nodes(patched).items() if matches(path, task.test_paths)}
        blobs = trees.read_blobs(list(dict.fromkeys(node.oid for node in owned.values()))) if owned else {}
        return {path: File(node.mode, blobs[node.oid]) for path, node in owned.items()}


def _read_tree(task: Task) -> dict[str, File]:
    """The hidden tests of a task, links kept as links."""
    root = task.material.hidden_tests()
    if not root.is_dir():
        raise TaskError(f"task {task.id}: hidden tests {root} is no directory")
    files: dict[str, File] = {}
    for folder, folders, names in os.walk(root):
        for name in (*names, *(name for name in folders if Path(folder, name).is_symlink())):
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            if CACHES.search(relative) or not is_safe(relative):
                continue
            if path.is_symlink():
                files[relative] = File(SYMLINK, os.fsencode(os.readlink(path)))
            else:
                files[relative] = File(EXECUTABLE if os.access(path, os.X_OK) else REGULAR, path.read_bytes())
    return files


def _plan(
    pristine: Pristine, task: Task, patch: Patch, hidden: Mapping[str, File]
) -> tuple[list[str], list[tuple[str, File]], tuple[str, ...]]:
    """(paths to remove, files to write, notes) that turn the pristine workspace into the graded one."""
    with tempfile.TemporaryDirectory(prefix="agentgym-grade-") as folder:
        trees = Trees(Path(folder), base=pristine.repository)
        solution = _difference(trees, pristine.tree, trees.apply(pristine.tree, patch.diff))
        before = _files(trees, pristine, [path for path in solution if is_shared_config(path)])
        owned = owned_changes(solution, before, task.test_paths, hidden)
        final: dict[str, File | None] = {path: file for path, file in solution.items() if path not in owned}
        final |= {path: None for path in pristine.nodes if matches(path, task.test_paths) and path not in hidden}
        final |= hidden
        changes = _difference(trees, pristine.tree, trees.write_tree(pristine.tree, final))
    removed = [path for path in pristine.nodes if path in changes]
    written = [(path, file) for path, file in changes.items() if file is not None]
    return removed, written, tuple(f"dropped the change to {path}: owned by the tests" for path in sorted(owned))


def _difference(trees: Trees, old: str, new: str) -> dict[str, File | None]:
    """Changed files of `new` against `old`; None where removed. Submodule entries are refused by git apply's own
    rules.
    """
    if old == new:
        return {}
    before, after = trees.nodes(old), trees.nodes(new)
    changed = {path: node for path, node in after.items() if before.get(path) != node and node.mode != "160000"}
    blobs = trees.read_blobs(list(dict.fromkeys(node.oid for node in changed.values()))) if changed else {}
    result: dict[str, File | None] = {path: None for path in before if path not in after}
    return result | {path: File(node.mode, blobs[node.oid]) for path, node in changed.items()}


def _files(trees: Trees, pristine: Pristine, paths: list[str]) -> dict[str, File | None]:
    nodes = {path: pristine.nodes[path] for path in paths if path in pristine.nodes}
    blobs = trees.read_blobs([node.oid for node in nodes.values()]) if nodes else {}
    return {path: File(node.mode, blobs[node.oid]) for path, node in nodes.items()}


async def _write(sandbox: Sandbox, workdir: str, removed: list[str], written: list[tuple[str, File]]) -> None:
    """Removals first, then one archive; the sandbox is fresh, so its own tools are the image's."""
    here = f"cd {shlex.quote(workdir)} && PATH={SYSTEM_PATH}"
    if removed:
        names = b"".join(os.fsencode(path) + b"\0" for path in removed)
        await _must(sandbox, f"{here} xargs -0 rm -f --", names)
    if written:
        await _must(sandbox, f"{here} tar -xf - --no-same-owner", pack(written))


async def _must(sandbox: Sandbox, command: str, stdin: bytes) -> None:
    result = await sandbox.exec(command, timeout=120.0, stdin=stdin)
    if result.exit_code != 0:
        raise SandboxError(f"the graded workspace could not be written ({command.split()[-2:]}): {result.text[-500:]}")
