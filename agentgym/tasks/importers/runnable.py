"""Can an imported row be graded here, and how? Asked once, at import, of the benchmark's own package.

What cannot be graded can still be imported, shown, exported and rolled out on; the reason is kept in the task and listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym.errors import AgentGymError
from agentgym.tasks.importers.rows import Instance
from agentgym.tasks.swebench.client import NotRunnable, PackageFailed, package
from agentgym.tasks.swebench.environment import RunSpec

ELSEWHERE: Mapping[str, str] = {
    "r2e-gym": "R2E-Gym's run_tests.sh and log parser lie in its images and its repository, and in no released package",
    "swe-bench-pro": "SWE-bench Pro's run scripts and parsers lie in its repository, and in no released package",
    "multi-swe-bench": "Multi-SWE-bench reads its logs with code of its own per repository, which swebench does not have",
}
"""Benchmarks whose way of judging neither the rows nor `swebench` and `swesmith` hold."""


def run_spec(instance: Instance, row: Mapping[str, Any], sources: Path | None) -> tuple[RunSpec | None, str]:
    """(how the row is run, "") or (None, why it cannot be graded). sources: also how its environment is made."""
    if instance.benchmark in ELSEWHERE:
        return None, ELSEWHERE[instance.benchmark]
    asked = {
        **row,
        "instance_id": instance.instance_id,
        "repo": instance.repo,
        "base_commit": instance.base_commit,
        "test_patch": instance.test_patch,
        "FAIL_TO_PASS": list(instance.fail_to_pass),
        "PASS_TO_PASS": list(instance.pass_to_pass),
    }
    if asked.get("environment_setup_commit") is None:
        asked.pop("environment_setup_commit", None)
    try:
        return RunSpec.of(package().spec(instance.benchmark, asked, sources)), ""
    except (NotRunnable, PackageFailed) as error:
        fork = "; its own fork of swebench, which has them, is not released" if instance.benchmark == "swe-gym" else ""
        return None, f"{error}{fork}"
    except AgentGymError as error:
        return None, f"{type(error).__name__}: {error.args[0]}"


def clone_of(instance: Instance, sources: Path) -> Path:
    """The clone of the row's repository below `sources`; raises NotRunnable."""
    owner, _, name = instance.repo.partition("/")
    for place in (f"{owner}/{name}", f"{owner}__{name}", name):
        for directory in (sources / place, sources / f"{place}.git"):
            if directory.is_dir():
                return directory
    raise NotRunnable(f"no clone of {instance.repo} in {sources}: it would be {owner}/{name} or {owner}__{name}")
