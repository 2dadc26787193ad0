"""A mutant that tests notice, as a task directory: the healthy image with one module replaced."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from pathlib import Path

from agentgym.tasks import harbor_verify
from agentgym.tasks.diff import tree_diff
from agentgym.tasks.digest import content_files
from agentgym.tasks.instructions import readable
from agentgym.tasks.mutation.bases import Base
from agentgym.tasks.mutation.mutants import Mutant
from agentgym.tasks.mutation.trial import Outcome
from agentgym.tasks.pypi_pair import PYTEST_ENV
from agentgym.tasks.toml import table

HELD_OUT_SHARE = 5
"""One module in this many is held out, with all its bugs."""


def split_of(base: Base, module: str) -> str:
    """`held-out` or `train`, decided by the source module alone, so that no module is on both sides."""
    digest = hashlib.sha256(f"{base.name}/{module}".encode()).digest()
    return "held-out" if digest[0] % HELD_OUT_SHARE == 0 else "train"


def difficulty_score(base: Base, mutant: Mutant, outcome: Outcome) -> float:
    """0 (easy) to 1: how much code to read (function, module), and how little the failing tests point at the place."""
    lines = (base.tree / mutant.path).read_text(encoding="utf-8", errors="replace").count("\n")
    name = mutant.function.rsplit(".", 1)[-1].strip("_").lower()
    named = any(name in test.lower().replace("_", "") or name in test.lower() for test in outcome.noticed)
    reading = min(mutant.length / 80, 1.0) * 0.35 + min(lines / 800, 1.0) * 0.35
    return round(reading + (0.0 if named else 0.2) + (0.1 if len(outcome.noticed) == 1 else 0.0), 3)


def label(score: float) -> str:
    return "easy" if score < 0.25 else "medium" if score < 0.55 else "hard"


def instruction(base: Base, outcome: Outcome) -> str:
    """What fails and how, from one failing test; neither the module nor the line."""
    test = min(outcome.noticed, key=lambda name: (not outcome.noticed[name], len(name)))
    reason = outcome.noticed[test].replace("`", "'")
    count = len(outcome.noticed)
    others = f" {count - 1} other test{'s' * (count != 2)} fail{'s' * (count == 2)} too." if count > 1 else ""
    shown = f" with\n\n    {reason}\n\n" if reason else ".\n\n"
    return (
        f'A recent change broke something in this code: the test for "{readable(test)}" (`{test.split("[")[0]}`) fails{shown}'
        f"It used to pass.{others} Find the mistake in the source and mend it; the tests are right.\n"
    )


def write_mutant(base: Base, mutant: Mutant, outcome: Outcome, parent: Path) -> Path:
    """Write `parent/<base>-<key>/`; returns it."""
    root = parent / f"{base.name}-{mutant.key}"
    if root.exists():
        shutil.rmtree(root)
    context = root / "environment"
    bug = context / "bug" / mutant.path
    bug.parent.mkdir(parents=True)
    bug.write_text(mutant.source, encoding="utf-8")
    for name, source in base.context.items():
        copy_tree(source, context / name)
    (context / "Dockerfile").write_text(f"{base.dockerfile}COPY bug/ /testbed/\n", encoding="utf-8")
    for name in base.tests:
        copy_tree(base.tree / name, root / "tests/hidden" / name)
    (root / "solution").mkdir()
    files = frozenset([mutant.path])
    (root / "solution/gold.patch").write_bytes(tree_diff(context / "bug", base.tree, files, files))
    copy_tree(base.tree / mutant.path, root / "solution/healthy" / mutant.path)
    _script(root / "solution/solve.sh", "cp -R /solution/healthy/. /testbed/\n")
    shutil.copyfile(harbor_verify.__file__, root / "tests/harbor_verify.py")
    owned = " ".join(f"--owned {shlex.quote(glob)}" for glob in base.test_paths)
    _script(
        root / "tests/test.sh",
        "mkdir -p /logs/verifier\ncd /testbed\n"
        "python3 /tests/harbor_verify.py --hidden /tests/hidden --expected /tests/expected.json \\\n"
        f"    --reward /logs/verifier/reward.txt {owned} -- {shlex.join(base.test_command)}\n",
    )
    expected = {"fail_to_pass": list(outcome.noticed), "pass_to_pass": list(outcome.passing)}
    (root / "tests/expected.json").write_text(
        json.dumps(expected, indent=0, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (root / "instruction.md").write_text(instruction(base, outcome), encoding="utf-8")
    (root / "task.toml").write_text(_manifest(base, mutant, outcome), encoding="utf-8")
    return root


def _manifest(base: Base, mutant: Mutant, outcome: Outcome) -> str:
    score = difficulty_score(base, mutant, outcome)
    tags = ["mutation", f"operator:{mutant.operator}", f"base:{base.name}", f"score:{score}"]
    ours = {
        "expected": "tests/expected.json",
        "test_command": list(base.test_command),
        "test_paths": list(base.test_paths),
        "split": split_of(base, mutant.path),
        "licence": base.licence,
    }
    return "\n".join(
        [
            'schema_version = "1.1"\n',
            table("task", {"name": f"agentgym/{base.name}-{mutant.key}", "description": f"A mistake in {base.name}"}),
            table("metadata", {"difficulty": label(score), "category": "bugfix", "tags": tags}),
            table("agent", {"timeout_sec": 600.0}),
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
        shutil.copyfile(source, target)
        return
    for path in content_files(source):
        if not path.is_symlink():
            copy_tree(path, target / path.relative_to(source))


def _script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/bash\nset -euo pipefail\n{body}", encoding="utf-8")
    path.chmod(0o755)
