"""Build the workspace that is graded: pristine tree + the solution's own changes + hidden tests, computed on the
host.

Everything is done on git trees, so there is no order of writes to race and no link to follow: what goes into the sandbox is the
difference between the final tree and the pristine one it already holds, in one command (`lay`). The hidden tests are the complete
new state of `task.test_paths`: an image file that matches them and is not among the hidden tests is removed (moved tests would
be collected twice otherwise).
"""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.sandbox.protocol import Sandbox, SandboxError
from agentgym.tasks.model import Task, TaskError
from agentgym.tasks.paths import matches
from agentgym.tasks.sources import BenchmarkMaterial
from agentgym.verify.grade import Patch
from agentgym.verify.ownership import CACHES, is_shared_config, owned_changes
from agentgym.verify.pristine import Pristine, capture
from agentgym.verify.trees import Node, PatchDoesNotApply, Trees, blob_oid
from agentgym.verify.workspace import EXECUTABLE, REGULAR, SYMLINK, SYSTEM_PATH, File, is_safe, pack


@dataclass(frozen=True, slots=True)
class Workspace:
    """What is to be graded. pristine: what the sandbox holds before. hidden: the hidden tests by path.

    removed, written: how the two differ; `lay` does it. A path may be in both: it is made anew, whatever it was. notes: changes
    that were dropped.
    """

    pristine: Pristine
    hidden: Mapping[str, File] = field(default_factory=dict)
    removed: Sequence[str] = ()
    written: Mapping[str, File] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


async def prepare(sandbox: Sandbox, task: Task, patch: Patch) -> Workspace:
    """The workspace to be graded in a fresh `sandbox`, which is only read. Raises PatchDoesNotApply, TaskError, SandboxError."""
    pristine = await capture(sandbox)
    return await asyncio.to_thread(_plan, pristine, task, patch)


def _hidden_tests(task: Task, pristine: Pristine) -> Mapping[str, File]:
    if isinstance(task.material, BenchmarkMaterial):
        return _patched_tests(task, task.material, pristine)
    return _read_tree(task)


def _patched_tests(task: Task, material: BenchmarkMaterial, pristine: Pristine) -> Mapping[str, File]:
    """The test-owned files of the image, with the row's test patch applied to them."""
    owned = {path: node for path, node in pristine.nodes.items() if matches(path, task.test_paths)}
    with tempfile.TemporaryDirectory(prefix="agentgym-tests-") as folder:
        trees = Trees(Path(folder), base=pristine.repository)
        try:
            changes = trees.changes(pristine.tree, material.test_patch())
        except PatchDoesNotApply as error:
            raise TaskError(f"task {task.id}: its test patch does not fit its image: {error}") from error
        patched: dict[str, File | None] = {**trees.files(owned)}
    patched |= {path: file for path, file in changes.items() if matches(path, task.test_paths)}
    return {path: file for path, file in patched.items() if file is not None}


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


def _plan(pristine: Pristine, task: Task, patch: Patch) -> Workspace:
    hidden = _hidden_tests(task, pristine)
    with tempfile.TemporaryDirectory(prefix="agentgym-grade-") as folder:
        trees = Trees(Path(folder), base=pristine.repository)
        solution = trees.changes(pristine.tree, patch.diff)
        shared = {path: pristine.nodes[path] for path in solution if is_shared_config(path) and path in pristine.nodes}
        owned = owned_changes(solution, trees.files(shared), task.test_paths, hidden)
    final: dict[str, File | None] = {path: file for path, file in solution.items() if path not in owned}
    final |= {path: None for path in pristine.nodes if matches(path, task.test_paths) and path not in hidden}
    final |= hidden
    written = {path: file for path, file in final.items() if file is not None and not _is_there(pristine, path, file)}
    gone = {path for path, file in final.items() if file is None and path in pristine.nodes}
    removed = gone | (written.keys() & pristine.nodes.keys()) | _in_the_way(pristine, written)
    notes = tuple(f"dropped the change to {path}: owned by the tests" for path in sorted(owned))
    return Workspace(pristine, hidden, sorted(removed), written, notes)


def _is_there(pristine: Pristine, path: str, file: File) -> bool:
    return pristine.nodes.get(path) == Node(file.mode, blob_oid(file.data))


def _in_the_way(pristine: Pristine, written: Iterable[str]) -> set[str]:
    """Files of the image where a directory must be, or in a directory where a file must be."""
    new = [path for path in written if path not in pristine.nodes]
    above = {parent for path in new for parent in _parents(path)} & pristine.nodes.keys()
    places = set(new)
    return above | {path for path in pristine.nodes if new and not places.isdisjoint(_parents(path))}


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


async def lay(sandbox: Sandbox, task: Task, workspace: Workspace, beside: Mapping[str, File], ask: str = "") -> str:
    """Write the workspace, and what the judge needs `beside` it (absolute path -> file), into the fresh sandbox.

    ask: shell that is run after it, in the workdir and with the environment of the tests; returns what that prints. One command
    for all, since each costs the sandbox several processes; nothing of the workspace has run yet, so its own tools are the
    image's. Raises SandboxError.
    """
    names = " ".join(shlex.quote(path) for path in workspace.removed)
    remove = f"printf '%s\\0' {names} | PATH={SYSTEM_PATH} xargs -0 rm -f -- && " if names else ""
    files = {f"{task.workdir}/{path}": file for path, file in workspace.written.items()} | dict(beside)
    archive = pack((path.lstrip("/"), file) for path, file in files.items())
    result = await sandbox.exec(
        f"{{ {remove}PATH={SYSTEM_PATH} tar -xf - --no-same-owner -C /; }} || exit 1\n{ask or 'true'}",
        timeout=180.0,
        env=dict(task.test_env),
        cwd=task.workdir,
        stdin=archive,
    )
    if result.exit_code != 0:
        raise SandboxError(f"the graded workspace could not be written: {result.text[-500:]}")
    return result.text
