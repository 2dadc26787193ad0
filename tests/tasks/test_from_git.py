"""A commit pair becomes a task; the tests that decide are found by running both commits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import BackendUnavailable
from agentgym.tasks import TaskError, load_task
from agentgym.tasks.from_git import from_git
from agentgym.tasks.from_pypi import PairOptions
from agentgym.tasks.mutation.bases import RUNNER_PINS

OPTIONS = PairOptions(pip=RUNNER_PINS, licence="MIT")


@pytest.fixture
async def backend():
    try:
        opened = await open_backend("auto", owner="tests of from-git")
    except BackendUnavailable as error:
        pytest.skip(f"no sandboxes here: {error}")
    yield opened
    await opened.close()


@pytest.fixture
def repository(tmp_path) -> Path:
    root = tmp_path / "evenly"
    source = "def is_even(n):\n    return n % 2 == {}\n"
    head = "from evenly import is_even\n\n\ndef test_odd():\n    assert is_even(1) in (True, False)\n"
    more = "\n\ndef test_even():\n    assert is_even(2), 'two is even'\n"
    states = [
        {"evenly.py": source.format(1), "tests/test_evenly.py": head},
        {"evenly.py": source.format(0), "tests/test_evenly.py": head + more},
        {"README.md": "more\n"},
    ]
    root.mkdir()
    git = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    for state in states:
        for name, text in state.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    return root


async def test_a_commit_pair_becomes_a_task(backend, repository, tmp_path):
    root, found = await from_git(repository, "HEAD~2", "HEAD~1", tmp_path / "tasks", backend, OPTIONS)

    task = load_task(root)
    assert task.fail_to_pass == ("tests/test_evenly.py::test_even",)
    assert task.pass_to_pass == ("tests/test_evenly.py::test_odd",)
    assert b"+    return n % 2 == 0" in task.material.gold_patch()
    assert "two is even" in task.instruction  # the symptom, from pytest's own summary
    assert (found.broken, found.unstable) == ((), ())


async def test_commits_that_make_no_task_say_why(backend, repository, tmp_path):
    with pytest.raises(TaskError, match="do not differ in source files"):
        await from_git(repository, "HEAD~1", "HEAD", tmp_path / "tasks", backend, OPTIONS)
    with pytest.raises(TaskError, match="no commit is called 'nothing'"):
        await from_git(repository, "nothing", "HEAD", tmp_path / "tasks", backend, OPTIONS)
