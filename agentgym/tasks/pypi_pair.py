"""Write a PyPI release pair as a task directory in the Harbor layout, ready for agentgym and for the `harbor` CLI.

The directory holds no third-party code: the Dockerfile fetches the old release by sha256 and knows nothing of the new
one; `tests/test.sh` and `solution/solve.sh` (which Harbor uploads only when it needs them) fetch the new one the same
way.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.tasks import fetch_sdist, harbor_verify
from agentgym.tasks.manifest import PypiSource
from agentgym.tasks.pypi import PypiMaterial
from agentgym.tasks.toml import table

PYTEST = (
    "python3",
    "-m",
    "pytest",
    "-p",
    "no:cacheprovider",
    "-q",
    "-o",
    "addopts=",
    "--continue-on-collection-errors",
)
PYTEST_ENV = {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
_TEST_FILE = re.compile(r"(test_.*|.*_test|tests|conftest)\.py")
_TEST_FOLDERS = frozenset({"test", "tests"})
_FETCH = "/usr/local/bin/fetch-sdist"


@dataclass(frozen=True, slots=True)
class PairRecipe:
    """Everything that a pair's directory says. python_path: the import root, relative to the workdir ("." or "src").

    pip: pinned requirements of the test run. editable: install the tree itself (its metadata is needed), else
    PYTHONPATH will do.
    """

    id: str
    source: PypiSource
    instruction: str
    title: str
    fail_to_pass: Sequence[str]
    pass_to_pass: Sequence[str]
    pip: Sequence[str]
    test_paths: Sequence[str]
    python_path: str = "."
    editable: bool = False
    test_timeout_s: int = 40
    difficulty: str = "medium"
    size: str = ""
    licence: str = ""
    split: str = "train"
    tags: Sequence[str] = field(default_factory=tuple)
    memory_mb: int = 2048
    verifier_timeout_s: float = 300.0


def guess_test_paths(*names: str) -> tuple[str, ...]:
    """Globs for the test-owned files among `names`: whole test folders, and single test modules outside of them."""
    globs = {"conftest.py"}
    for name in names:
        *folders, base = name.split("/")
        depth = next((index for index, folder in enumerate(folders) if folder in _TEST_FOLDERS), None)
        if depth is not None:
            globs.add("/".join([*folders[: depth + 1], "**"]))
        elif _TEST_FILE.fullmatch(base):
            globs.add(name)
    return tuple(sorted(globs))


def write_task(recipe: PairRecipe, parent: Path) -> Path:
    """Write `parent/<id>/`, replacing what is there; returns it."""
    root = parent / recipe.id
    if root.exists():
        shutil.rmtree(root)
    for folder in ("environment", "tests", "solution"):
        (root / folder).mkdir(parents=True)
    (root / "task.toml").write_text(_task_toml(recipe), encoding="utf-8")
    (root / "instruction.md").write_text(recipe.instruction.strip() + "\n", encoding="utf-8")
    (root / "environment/Dockerfile").write_text(_dockerfile(recipe), encoding="utf-8")
    shutil.copyfile(fetch_sdist.__file__, root / "environment/fetch_sdist.py")
    expected = {"fail_to_pass": sorted(recipe.fail_to_pass), "pass_to_pass": sorted(recipe.pass_to_pass)}
    (root / "tests/expected.json").write_text(
        json.dumps(expected, indent=0, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    shutil.copyfile(harbor_verify.__file__, root / "tests/harbor_verify.py")
    _script(root / "tests/test.sh", _test_sh(recipe))
    _script(root / "solution/solve.sh", _solve_sh(recipe))
    return root


def _script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def test_command(recipe: PairRecipe) -> list[str]:
    """argv of the tests; needs pytest-timeout among the requirements, because an old release may hang."""
    return [*PYTEST, f"--timeout={recipe.test_timeout_s}"]


def _task_toml(recipe: PairRecipe) -> str:
    tags = ["pypi-pair", *([f"size:{recipe.size}"] if recipe.size else []), *recipe.tags]
    limits = {
        "build_timeout_sec": 900.0,
        "cpus": 1,
        "memory_mb": recipe.memory_mb,
        "storage_mb": 4096,
        "allow_internet": True,
    }
    ours = {
        "expected": "tests/expected.json",
        "test_command": test_command(recipe),
        "test_paths": list(recipe.test_paths),
        "workdir": "/testbed",
        "network": False,
        "language": "python",
        "split": recipe.split,
        "licence": recipe.licence,
    }
    return "\n".join(
        [
            'schema_version = "1.1"\n',
            table("task", {"name": f"agentgym/{recipe.id}", "description": recipe.title}),
            table("metadata", {"difficulty": recipe.difficulty, "category": "bugfix", "tags": tags}),
            table("agent", {"timeout_sec": 900.0}),
            table("verifier", {"timeout_sec": recipe.verifier_timeout_s}),
            "# Harbor's own tests and solution fetch the newer release; agentgym's sandboxes have no network.",
            table("environment", limits),
            table("agentgym", ours),
            table("agentgym.test_env", PYTEST_ENV),
            table("agentgym.source", recipe.source.model_dump()),
        ]
    )


def environment_lines(pip: Sequence[str]) -> str:
    """The head of a Dockerfile: the base image with pinned requirements, the same layer for the same pins."""
    requirements = " \\\n    ".join(shlex.quote(requirement) for requirement in sorted(pip, key=str.lower))
    return f"""\
FROM python:3.11-slim-bookworm
ENV PIP_BREAK_SYSTEM_PACKAGES=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
ENV PYTHONDONTWRITEBYTECODE=1
RUN python3 -m pip install --no-deps \\
    {requirements}
"""


def release_lines(package: str, filename: str, sha256: str, python_path: str, *, editable: bool) -> str:
    """The rest of it: one pinned release in the workdir, importable. `fetch_sdist.py` must lie in the context."""
    root = "/testbed" if python_path == "." else f"/testbed/{python_path}"
    install = (
        "RUN python3 -m pip install --no-deps --no-build-isolation --use-pep517 -e ."
        if editable
        else f"ENV PYTHONPATH={root}"
    )
    return f"""\
COPY fetch_sdist.py {_FETCH}
WORKDIR /testbed
RUN python3 {_FETCH} {package} {filename} {sha256} /testbed
{install}
"""


def _dockerfile(recipe: PairRecipe) -> str:
    source = recipe.source
    release = (source.package, source.old_filename, source.old_sha256, recipe.python_path)
    return environment_lines(recipe.pip) + release_lines(*release, editable=recipe.editable)


def _fetch_new(source: PypiSource) -> str:
    return f'python3 {_FETCH} {source.package} {source.new_filename} {source.new_sha256} "$new/tree"'


def _test_sh(recipe: PairRecipe) -> str:
    environment = " ".join(f"{name}={shlex.quote(value)}" for name, value in PYTEST_ENV.items())
    owned = " ".join(f"--owned {shlex.quote(glob)}" for glob in recipe.test_paths)
    return f"""\
#!/bin/bash
# Harbor's verifier: the newer release's tests, judged by tests/expected.json.
set -euo pipefail
mkdir -p /logs/verifier
echo 0 > /logs/verifier/reward.txt
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
{_fetch_new(recipe.source)}
cd /testbed
export {environment}
python3 /tests/harbor_verify.py --hidden "$new/tree" \\
    --expected /tests/expected.json --reward /logs/verifier/reward.txt \\
    {owned} -- {shlex.join(test_command(recipe))}
"""


def _solve_sh(recipe: PairRecipe) -> str:
    changed, removed = PypiMaterial(recipe.source, tuple(recipe.test_paths)).changed_files()
    copies = [f'install -D "$new/tree"/{shlex.quote(name)} {shlex.quote(name)}' for name in changed]
    removals = [f"rm {shlex.quote(name)}" for name in removed]
    return f"""\
#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
{_fetch_new(recipe.source)}
cd /testbed
""" + "".join(f"{line}\n" for line in [*copies, *removals])
