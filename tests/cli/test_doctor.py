"""`doctor` tells the truth about this machine, and says how to mend it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def doctor(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"PATH": path} if path is not None else {})
    return subprocess.run(
        [sys.executable, "-m", "agentgym", "doctor", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=120,
    )


@pytest.fixture
def only_git(tmp_path: Path) -> str:
    """A PATH with git and nothing else: a machine without any sandbox."""
    (tmp_path / "git").symlink_to(subprocess.check_output(["which", "git"], text=True).strip())
    return str(tmp_path)


def test_a_machine_without_any_sandbox_is_not_usable_and_the_command_that_mends_it_is_named(only_git: str) -> None:
    done = doctor("--json", path=only_git)
    report = json.loads(done.stdout)
    assert done.returncode == 3
    assert report["usable"] is False
    assert "apt-get install" in done.stderr
    assert "bubblewrap" in done.stderr


def test_json_is_one_document_that_agrees_with_the_exit_code() -> None:
    done = doctor("--json")
    report = json.loads(done.stdout)
    assert report["usable"] is (done.returncode == 0)
    assert {"python", "git", "docker", "bubblewrap", "debootstrap"} <= {check["name"] for check in report["checks"]}
    assert all(check["ok"] or check["fix"] for check in report["checks"])


def test_an_unknown_job_is_a_usage_error() -> None:
    done = doctor("--for", "dinner")
    assert done.returncode == 2
    assert "quickstart" in done.stderr
