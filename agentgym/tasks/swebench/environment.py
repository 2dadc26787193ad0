"""What of a benchmark's answer ends up in the task directory.

    tests/run.sh             the commands that run the tests, between two marks that the grader makes unguessable
    environment/Dockerfile   only where sources are given: the specified Python and packages, and the repository at its
                             base commit, copied from a clone (no git host and no image registry of the benchmark is asked)

The script does not apply the test patch: the grader lays the tests over the workdir itself. Packages are installed by pip
instead of conda, in the specification's own order; a row whose environment only conda can make is refused with that reason.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.tasks.diff import git
from agentgym.tasks.swebench.client import NotRunnable

MARK = "@MARK@"
"""Stands for the marks in `tests/run.sh`; the grader replaces it by a nonce."""

_OFFLINE = "export PIP_NO_INDEX=1 PIP_NO_BUILD_ISOLATION=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore"


@dataclass(frozen=True, slots=True)
class RunSpec:
    """How one row is run. test: commands whose output is the log. before_tests: commands between the patch and the tests.

    parser: what reads the log. test_files: where the packages say which files hold the tests. The rest makes the
    environment: python version, conda-style package names, requirement lines, pip arguments, shell commands.
    """

    test: Sequence[str]
    parser: str
    before_tests: Sequence[str] = ()
    test_files: Sequence[str] = ()
    python: str = ""
    packages: str = ""
    requirements: str = ""
    pip_packages: Sequence[str] = ()
    set_up: Sequence[str] = ()

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> RunSpec:
        return cls(**answer)


def run_script(spec: RunSpec, workdir: str) -> str:
    """`tests/run.sh`. Its commands come from the data set: they run in the sandbox and nowhere else."""
    return "\n".join(
        [
            "#!/bin/bash",
            "# The benchmark's own commands; what stands between the marks is the log that its parser reads.",
            "if [ -f /opt/miniconda3/bin/activate ]; then source /opt/miniconda3/bin/activate; conda activate testbed; fi",
            _OFFLINE,
            f"cd {shlex.quote(workdir)}",
            *spec.before_tests,
            f"echo; echo '{MARK} begin'",
            *spec.test,
            "code=$?",
            f'echo; echo "{MARK} end $code"',
            "",
        ]
    )


def write_environment(spec: RunSpec, repository: Path, commit: str, version: str, context: Path, bug: str = "") -> None:
    """The build context below `context`; raises NotRunnable where the clone lacks the commit or no Python is named.

    bug: a patch that puts the problem in (SWE-smith), applied to the copy.
    """
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", spec.python):
        raise NotRunnable(f"the specification names no Python version to build with ({spec.python!r})")
    context.mkdir(parents=True, exist_ok=True)
    export(repository, commit, context / "repo")
    if bug:
        (context / "bug.patch").write_bytes(bug.encode("utf-8", "surrogatepass"))
        git(context / "repo", "init", "-q")  # else git would look for a repository around it
        git(context / "repo", "apply", "--whitespace=nowarn", str(context / "bug.patch"))
        shutil.rmtree(context / "repo/.git")
    (context / "requirements.txt").write_text(spec.requirements.strip() + "\n", encoding="utf-8")
    (context / "set-up.sh").write_text("\n".join(["set -exo pipefail", *spec.set_up, ""]), encoding="utf-8")
    words = [shlex.quote(word) for word in shlex.split(spec.packages)]
    steps = [
        f"FROM python:{spec.python}-bookworm",
        "ENV PIP_BREAK_SYSTEM_PACKAGES=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1",
        f"ENV SETUPTOOLS_SCM_PRETEND_VERSION={pretended_version(repository, commit, version)}",
        f"RUN python -m pip install setuptools wheel {' '.join(words)}".rstrip(),
        "COPY requirements.txt /tmp/requirements.txt",
        "RUN python -m pip install -r /tmp/requirements.txt",
    ]
    if spec.pip_packages:
        steps.append(f"RUN python -m pip install {shlex.join(spec.pip_packages)}")
    steps += ["WORKDIR /testbed", "COPY repo/ /testbed/", "COPY set-up.sh /tmp/set-up.sh", "RUN bash /tmp/set-up.sh"]
    # Before the tests the specification installs the package again; commands do not run as root.
    places = 'import sysconfig; print(sysconfig.get_path("purelib"), sysconfig.get_path("scripts"))'
    steps.append(f"RUN chmod -R a+w $(python -c '{places}')")
    (context / "Dockerfile").write_text("\n".join([*steps, ""]), encoding="utf-8")


def export(repository: Path, commit: str, target: Path) -> None:
    """The commit's files and links, without hooks, filters or attributes of the clone playing a part."""
    try:
        tree = git(repository, "rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}").decode().strip()
    except RuntimeError as error:
        raise NotRunnable(f"the clone in {repository} does not have commit {commit[:12]}") from error
    entries = [entry.partition(b"\t") for entry in git(repository, "ls-tree", "-r", "-z", tree).split(b"\0")[:-1]]
    blobs = [(meta.decode().split(), os.fsdecode(name)) for meta, _, name in entries if b" blob " in meta]
    target.mkdir(parents=True)
    contents = _contents(repository, [oid for (_, _, oid), _ in blobs])
    for ((mode, _, _), name), data in zip(blobs, contents, strict=True):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if mode == "120000":
            path.symlink_to(os.fsdecode(data))
        else:
            path.write_bytes(data)
            path.chmod(0o755 if mode == "100755" else 0o644)


def _contents(repository: Path, oids: list[str]) -> list[bytes]:
    output = git(repository, "cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in oids).encode())
    contents, position = [], 0
    for _ in oids:
        end = output.index(b"\n", position)
        size = int(output[position:end].split()[2])
        contents.append(output[end + 1 : end + 1 + size])
        position = end + size + 2
    return contents


def pretended_version(repository: Path, commit: str, version: str) -> str:
    """What setuptools-scm would find from the tags, which the image does not have; else the row's version."""
    try:
        described = git(repository, "describe", "--tags", "--long", commit).decode().strip()
    except RuntimeError:
        described = ""
    match = re.fullmatch(r"\D*?(\d+(?:\.\d+)*)(?:\.?(?:a|b|rc|dev)\d+)?-(\d+)-g[0-9a-f]+", described)
    if match:
        return match.group(1) if match.group(2) == "0" else f"{match.group(1)}.post{match.group(2)}"
    return version if re.fullmatch(r"\d+(\.\d+)*", version) else "0.0"


__all__ = ["MARK", "RunSpec", "export", "pretended_version", "run_script", "write_environment"]
