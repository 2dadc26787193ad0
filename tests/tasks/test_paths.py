"""Globs mean the same wherever they are read."""

from __future__ import annotations

import pytest

from agentgym.tasks.harbor_verify import owned_by
from agentgym.tasks.paths import matches


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("tests/**", "tests/a/b.py", True),
        ("tests/**", "mytests/a.py", False),
        ("tests/**", "src/tests/a.py", False),
        ("**/tests/**", "tests/a.py", True),
        ("**/tests/**", "src/x/tests/a.py", True),
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", False),
        ("test_?.py", "test_a.py", True),
        ("a.b", "aXb", False),
        ("tests/x [1].py", "tests/x [1].py", False),
    ],
)
def test_a_glob_matches_whole_paths(glob, path, expected):
    assert matches(path, [glob]) is expected


def test_a_folder_owns_what_lies_below_it():
    assert matches("tests/deep/file\nname.py", ["tests"])
    assert not matches("testsuite.py", ["tests"])


@pytest.mark.parametrize("glob", ["tests/**", "**/conftest.py", "src/*/tests/**", "tests.py"])
@pytest.mark.parametrize("path", ["tests/a.py", "conftest.py", "a/b/conftest.py", "src/x/tests/y.py", "tests.py"])
def test_harbors_script_reads_globs_alike(glob, path):
    assert bool(owned_by(glob).fullmatch(path)) is matches(path, [glob])
