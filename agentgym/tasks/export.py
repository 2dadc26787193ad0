"""Tasks for other tools: Harbor directories, and rows in the SWE-bench format.

A Harbor directory is the task's own, without what tools left in it. A row carries the reference solution and the tests as two
diffs against the base; an imported row is given back as it came, so that import → export → import changes nothing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agentgym.tasks.diff import tree_diff
from agentgym.tasks.digest import content_files
from agentgym.tasks.model import Task, TaskError
from agentgym.tasks.paths import matches
from agentgym.tasks.pypi import PypiMaterial, split_files
from agentgym.tasks.sources import BenchmarkMaterial, FilesMaterial


def export_harbor(task: Task, parent: Path) -> Path:
    """Copy the task to `parent/<id>/`, replacing what is there; returns it."""
    target = parent / task.id
    if target.exists():
        shutil.rmtree(target)
    for path in content_files(task.root):
        copy = target / path.relative_to(task.root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy, follow_symlinks=False)
    return target


def swe_bench_row(task: Task) -> dict[str, Any]:
    """The task as one row; raises TaskError for a task that is no pair of diffs (a plain Harbor script task)."""
    material = task.material
    if isinstance(material, BenchmarkMaterial):
        return json.loads((task.root / material.source.row).read_text(encoding="utf-8"))
    source = task.source
    return {
        "repo": source.get("package") or task.id,
        "instance_id": task.id,
        "base_commit": source.get("old_sha256") or task.image.digest.removeprefix("sha256:"),
        "patch": material.gold_patch().decode("utf-8", "surrogateescape"),
        "test_patch": _test_patch(task).decode("utf-8", "surrogateescape"),
        "problem_statement": task.instruction,
        "hints_text": "",
        "created_at": "",
        "version": source.get("old", ""),
        "FAIL_TO_PASS": json.dumps(list(task.fail_to_pass)),
        "PASS_TO_PASS": json.dumps(list(task.pass_to_pass)),
        "environment_setup_commit": "",
        "difficulty": task.difficulty,
    }


def _test_patch(task: Task) -> bytes:
    """The diff from the image's test-owned files to the hidden ones."""
    material = task.material
    if isinstance(material, PypiMaterial):
        old, new = material.old_tree(), material.new_tree()
        return tree_diff(old, new, split_files(old, material.test_paths)[1], split_files(new, material.test_paths)[1])
    if isinstance(material, FilesMaterial):
        visible = task.root / "environment/repo"
        return tree_diff(
            visible, material.hidden, _owned(visible, task.test_paths), _owned(material.hidden, task.test_paths)
        )
    raise TaskError(f"task {task.id} has no tests that a row could carry: it is graded by tests/test.sh")


def _owned(tree: Path, globs: Iterable[str]) -> frozenset[str]:
    globs = tuple(globs)
    names = (path.relative_to(tree).as_posix() for path in content_files(tree))
    return frozenset(name for name in names if matches(name, globs))


def export_swe_bench(tasks: Iterable[Task], file: Path) -> int:
    """Write one JSON line per task; returns how many."""
    rows = [swe_bench_row(task) for task in tasks]
    lines = (json.dumps(row, ensure_ascii=True) + "\n" for row in rows)
    file.write_text("".join(lines), encoding="utf-8")
    return len(rows)
