"""Who owns a path: the solution, or the tests. A change to a test-owned path never reaches the grader.

Owned by the tests, whatever the task says:
- `task.test_paths`, every file of the hidden tests, and every directory on the way to one (it must not become a
  link);
- what decides how pytest collects, runs and reports: `conftest.py`, `pytest.ini` and its kin, and the pytest tables
  of `pyproject.toml`, `setup.cfg` and `tox.ini` (a change elsewhere in those three files is kept);
- what the interpreter runs by itself: `sitecustomize.py`, `usercustomize.py`, `*.pth`, byte code, `*.dist-info` and
  `*.egg-info` (entry points load plugins), and virtual environments.

The image's own versions of these files are what the tests see: the price is that a solution which *needs* a new
`conftest.py` outside the hidden tests cannot pass; no released fix we met does.
"""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Iterable, Mapping

from agentgym.tasks.paths import matches
from agentgym.verify.workspace import File

CACHES = re.compile(
    r"(^|/)(__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache|\.hypothesis|\.tox|\.nox)(/|$)|\.py[co]$",
    re.IGNORECASE,
)
"""Never part of a solution, and never read from one: byte code next to a source file would run instead of it."""

_RUNNER_NAMES = re.compile(
    r"(^|/)(conftest\.py|\.?pytest\.(ini|toml)|(site|user)customize(\.py|/.*)|[^/]*\.pth)$"
    r"|(^|/)[^/]*\.(dist|egg)-info(/|$)"
    r"|(^|/)(\.venv|venv|site-packages|dist-packages)(/|$)"
)
_SHARED_CONFIG = re.compile(r"(^|/)(pyproject\.toml|setup\.cfg|tox\.ini)$")


def is_test_owned(path: str, test_paths: Iterable[str], hidden: Iterable[str]) -> bool:
    """True where `path` belongs to the tests by its name alone; `hidden`: workdir-relative files of the hidden tests."""
    above = f"{path}/"
    globs = tuple(test_paths)
    # The second match: `tests/**` also owns the name `tests`, which must not become a file or a link.
    if _RUNNER_NAMES.search(path) or CACHES.search(path) or matches(path, globs) or matches(f"{above}_", globs):
        return True
    return any(name == path or name.startswith(above) or path.startswith(f"{name}/") for name in hidden)


def owned_changes(
    changes: Mapping[str, File | None],
    before: Mapping[str, File | None],
    test_paths: Iterable[str],
    hidden: Iterable[str],
) -> set[str]:
    """Which changed paths belong to the tests. `before`: the image's version of the shared configuration files."""
    hidden, owned = list(hidden), set()
    for path, after in changes.items():
        if is_test_owned(path, test_paths, hidden) or (
            _SHARED_CONFIG.search(path) and _pytest_tables(path, before.get(path)) != _pytest_tables(path, after)
        ):
            owned.add(path)
    return owned


def is_shared_config(path: str) -> bool:
    return bool(_SHARED_CONFIG.search(path))


def _pytest_tables(path: str, file: File | None) -> object:
    """What pytest would read from this file; a file that does not parse equals no other."""
    if file is None:
        return None
    if file.mode == "120000":
        return object()
    text = file.data.decode("utf-8", errors="surrogateescape")
    try:
        if path.endswith(".toml"):
            tables = tomllib.loads(text).get("tool", {}).get("pytest")
            return tables or None
        parser = configparser.RawConfigParser(strict=False)
        parser.read_string(text)
        return {name: dict(parser[name]) for name in parser.sections() if "pytest" in name} or None
    except (ValueError, configparser.Error):
        return object()
