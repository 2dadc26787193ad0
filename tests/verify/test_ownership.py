"""Which changes belong to the tests, by name or by what they configure."""

from __future__ import annotations

import pytest

from agentgym.verify.ownership import is_test_owned, owned_changes
from agentgym.verify.workspace import File


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_a.py",
        "tests/deep/data.json",
        "tests",
        "conftest.py",
        "src/pkg/conftest.py",
        "pytest.ini",
        ".pytest.toml",
        "sitecustomize.py",
        "usercustomize/__init__.py",
        "zz.pth",
        "evil-1.0.dist-info/entry_points.txt",
        "pkg.egg-info/entry_points.txt",
        "pkg/__pycache__/mod.cpython-311.pyc",
        ".venv/lib/python3.11/site-packages/pytest/__init__.py",
        "checks/hidden.py",
        "checks",
    ],
)
def test_owned_by_the_tests(path: str) -> None:
    assert is_test_owned(path, ["tests/**"], ["checks/hidden.py"])


@pytest.mark.parametrize("path", ["src/pkg/mod.py", "testing.py", "src/tests_of_life.py", "checks2/x.py", "README.md"])
def test_owned_by_the_solution(path: str) -> None:
    assert not is_test_owned(path, ["tests/**"], ["checks/hidden.py"])


@pytest.mark.parametrize(
    ("path", "before", "after", "owned"),
    [
        ("pyproject.toml", '[project]\nname="a"\n', '[project]\nname="b"\n', False),
        ("pyproject.toml", '[project]\nname="a"\n', '[tool.pytest.ini_options]\naddopts="-x"\n', True),
        ("pyproject.toml", '[project]\nname="a"\n', "not toml [", True),
        ("setup.cfg", "[metadata]\nname=a\n", "[metadata]\nname=b\n", False),
        ("setup.cfg", "[tool:pytest]\naddopts=-q\n", "[metadata]\nname=b\n", True),
        ("tox.ini", "[pytest]\naddopts=-q\n", "[pytest]\naddopts=-q --co\n", True),
    ],
)
def test_a_shared_file_is_owned_where_its_pytest_table_changes(path: str, before: str, after: str, owned: bool) -> None:
    old, new = File("100644", before.encode()), File("100644", after.encode())

    assert (owned_changes({path: new}, {path: old}, ["tests/**"], []) == {path}) is owned


def test_a_new_shared_file_without_a_pytest_table_is_the_solutions() -> None:
    assert not owned_changes({"setup.cfg": File("100644", b"[metadata]\nname=a\n")}, {}, [], [])
