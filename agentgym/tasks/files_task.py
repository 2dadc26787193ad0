"""Write a task whose material lies in its own directory: hidden tests as a tree, the solution as a diff and as whole files."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.tasks import harbor_verify
from agentgym.tasks.diff import tree_diff
from agentgym.tasks.digest import content_files
from agentgym.tasks.pypi_pair import PYTEST_ENV
from agentgym.tasks.toml import table


@dataclass(frozen=True, slots=True)
class FilesRecipe:
    """context: what the Dockerfile copies, by name. before, after: trees without and with the solution.

    source: files that differ between them. tests: test-owned files of `after`. overlay: what is laid over the workdir
    last (the Dockerfile does not mention it), so that tasks which differ in nothing else share an image.
    """

    id: str
    title: str
    instruction: str
    dockerfile: str
    context: Mapping[str, Path]
    before: Path
    after: Path
    source: frozenset[str]
    tests: Iterable[str]
    test_paths: Sequence[str]
    test_command: Sequence[str]
    fail_to_pass: Sequence[str]
    pass_to_pass: Sequence[str]
    difficulty: str = "medium"
    split: str = "train"
    licence: str = ""
    tags: Sequence[str] = field(default_factory=tuple)
    overlay: Path | None = None


def write_files_task(recipe: FilesRecipe, parent: Path) -> Path:
    """Write `parent/<id>/`, replacing what is there; returns it."""
    root = parent / recipe.id
    if root.exists():
        shutil.rmtree(root)
    for name, source in recipe.context.items():
        copy_tree(source, root / "environment" / name)
    (root / "environment").mkdir(parents=True, exist_ok=True)
    dockerfile = recipe.dockerfile
    if recipe.overlay:
        copy_tree(recipe.overlay, root / "environment/overlay")
        dockerfile += "COPY overlay/ /testbed/\n"
    (root / "environment/Dockerfile").write_text(dockerfile, encoding="utf-8")
    for name in recipe.tests:
        copy_tree(recipe.after / name, root / "tests/hidden" / name)
    shutil.copyfile(harbor_verify.__file__, root / "tests/harbor_verify.py")
    _script(root / "tests/test.sh", _test_sh(recipe))
    expected = {"fail_to_pass": list(recipe.fail_to_pass), "pass_to_pass": list(recipe.pass_to_pass)}
    (root / "tests/expected.json").write_text(
        json.dumps(expected, indent=0, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    _solution(recipe, root / "solution")
    (root / "instruction.md").write_text(recipe.instruction.strip() + "\n", encoding="utf-8")
    (root / "task.toml").write_text(_manifest(recipe), encoding="utf-8")
    return root


def _solution(recipe: FilesRecipe, folder: Path) -> None:
    before = frozenset(name for name in recipe.source if (recipe.before / name).is_file())
    after = frozenset(name for name in recipe.source if (recipe.after / name).is_file())
    folder.mkdir()
    (folder / "gold.patch").write_bytes(tree_diff(recipe.before, recipe.after, before, after))
    for name in after:
        copy_tree(recipe.after / name, folder / "files" / name)
    removals = "".join(f"rm -f {shlex.quote(name)}\n" for name in sorted(before - after))
    copies = "cp -R /solution/files/. /testbed/\n" if after else ""
    _script(folder / "solve.sh", f"cd /testbed\n{removals}{copies}")


def _test_sh(recipe: FilesRecipe) -> str:
    owned = " ".join(f"--owned {shlex.quote(glob)}" for glob in recipe.test_paths)
    return (
        "mkdir -p /logs/verifier\ncd /testbed\n"
        "python3 /tests/harbor_verify.py --hidden /tests/hidden --expected /tests/expected.json \\\n"
        f"    --reward /logs/verifier/reward.txt {owned} -- {shlex.join(recipe.test_command)}\n"
    )


def _manifest(recipe: FilesRecipe) -> str:
    ours = {
        "expected": "tests/expected.json",
        "test_command": list(recipe.test_command),
        "test_paths": list(recipe.test_paths),
        "split": recipe.split,
        "licence": recipe.licence,
        **({"overlay": "overlay"} if recipe.overlay else {}),
    }
    return "\n".join(
        [
            'schema_version = "1.1"\n',
            table("task", {"name": f"agentgym/{recipe.id}", "description": recipe.title}),
            table("metadata", {"difficulty": recipe.difficulty, "category": "bugfix", "tags": list(recipe.tags)}),
            table("agent", {"timeout_sec": 900.0}),
            table("verifier", {"timeout_sec": 300.0}),
            table("environment", {"cpus": 1, "memory_mb": 2048, "storage_mb": 4096, "allow_internet": False}),
            table("agentgym", ours),
            table("agentgym.test_env", PYTEST_ENV),
            table("agentgym.source", {"kind": "files"}),
        ]
    )


def copy_tree(source: Path, target: Path) -> None:
    """Copy a file, or the content of a folder without caches and links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not source.is_dir():
        shutil.copy2(source, target)
        return
    for path in content_files(source):
        if not path.is_symlink():
            copy_tree(path, target / path.relative_to(source))


def _script(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\nset -euo pipefail\n{body}", encoding="utf-8")
    path.chmod(0o755)
