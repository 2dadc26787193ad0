"""An imported row as a task directory.

The row itself is kept as `tests/row.json`: the importer's only loss-free output, and what `export` gives back. The reference
solution is `solution/gold.patch`; the tests are the row's `test_patch`, and `tests/run.sh` runs them where the benchmark's
package knows how. The environment is the published image, or (with sources) a Dockerfile.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.tasks.importers.rows import Instance, RowRefused
from agentgym.tasks.swebench.environment import RunSpec, run_script, write_environment
from agentgym.tasks.toml import table

_SIZE = {"cpus": 1, "memory_mb": 4096, "storage_mb": 10240}
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")


@dataclass(frozen=True, slots=True)
class HowToRun:
    """spec: None where nothing can grade the row, then `ungraded` says why. repository: the clone to build from, if any."""

    spec: RunSpec | None = None
    ungraded: str = ""
    repository: Path | None = None


def write_instance(instance: Instance, row: Mapping[str, Any], parent: Path, how: HowToRun = HowToRun()) -> Path:
    """Write `parent/<instance id>/`, replacing what is there; raises RowRefused for an id that cannot name a directory,
    NotRunnable where its environment cannot be built from the clone.
    """
    if not _SAFE_ID.fullmatch(instance.instance_id):
        raise RowRefused(f"instance_id {instance.instance_id!r} cannot name a task: letters, digits and . _ + - only")
    root = parent / instance.instance_id
    if root.exists():
        shutil.rmtree(root)
    for folder in ("tests", "solution"):
        (root / folder).mkdir(parents=True)
    built = _environment(instance, how, root / "environment")
    _write(root / "task.toml", _manifest(instance, how, built=built))
    if how.spec is not None:
        _write(root / "tests/run.sh", run_script(how.spec, instance.workdir))
    _write(root / "instruction.md", instance.problem_statement)
    _write(root / "solution/gold.patch", instance.gold)
    _write(
        root / "solution/solve.sh",
        f"#!/bin/bash\nset -euo pipefail\ncd {instance.workdir}\ngit apply /solution/gold.patch\n",
    )
    _write(root / "tests/test.patch", instance.test_patch)
    _write(root / "tests/row.json", json.dumps(row, ensure_ascii=False, indent=1, default=str) + "\n")
    expected = {"fail_to_pass": list(instance.fail_to_pass), "pass_to_pass": list(instance.pass_to_pass)}
    _write(root / "tests/expected.json", json.dumps(expected, ensure_ascii=False, indent=0) + "\n")
    return root


def _write(path: Path, text: str) -> None:
    """Exactly this text: rows have CRLF and lone surrogates that must not be lost."""
    path.write_bytes(text.encode("utf-8", "surrogatepass"))


def _environment(instance: Instance, how: HowToRun, context: Path) -> bool:
    """Write the build context the row needs, if any: from a clone, or SWE-smith's bug on top of its image."""
    if how.repository is not None and how.spec is not None:
        base, version = instance.base_commit, instance.version
        write_environment(how.spec, how.repository, base, version, context, bug=instance.bug)
        return True
    if instance.bug:
        context.mkdir()
        _write(context / "bug.patch", instance.bug)
        lines = [f"FROM {instance.image}", f"WORKDIR {instance.workdir}", "COPY bug.patch /tmp/bug.patch"]
        _write(context / "Dockerfile", "\n".join([*lines, "RUN git apply --whitespace=nowarn /tmp/bug.patch", ""]))
        return True
    return False


def _manifest(instance: Instance, how: HowToRun, *, built: bool) -> str:
    files = how.spec.test_files if how.spec else ()
    ours = {
        "judge": "log",
        "expected": "tests/expected.json",
        "test_paths": list(test_files(instance.test_patch)) or sorted(files) or ["tests/**"],
        "workdir": instance.workdir,
        "language": instance.language,
        "split": "train",
    }
    source = {
        "kind": "benchmark",
        "benchmark": instance.benchmark,
        "repo": instance.repo,
        "base_commit": instance.base_commit,
        "version": instance.version,
        "parser": how.spec.parser if how.spec else "",
        "ungraded": how.ungraded,
    }
    tags = [instance.benchmark, *instance.notes]
    return "\n".join(
        [
            'schema_version = "1.1"\n',
            table(
                "task",
                {
                    "name": f"agentgym/{instance.instance_id}",
                    "description": f"{instance.repo} at {instance.base_commit[:12]}",
                },
            ),
            table("metadata", {"difficulty": instance.difficulty, "category": "bugfix", "tags": tags}),
            table("agent", {"timeout_sec": 1800.0}),
            table("verifier", {"timeout_sec": 1800.0}),
            table("environment", {"docker_image": None if built else instance.image, **_SIZE}),
            table("agentgym", ours),
            table("agentgym.source", source),
        ]
    )


def test_files(patch: str) -> list[str]:
    """The files that a diff touches, old and new names."""
    names = re.findall(r'^diff --git "?a/(.+?)"? "?b/(.+?)"?$', patch, re.MULTILINE)
    return sorted({name.rstrip("\r") for pair in names for name in pair})
