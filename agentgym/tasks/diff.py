"""Diffs between two trees as git writes them, free of the user's git configuration and of the trees' own attributes."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from agentgym.errors import MachineError

_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "agentgym",
    "GIT_AUTHOR_EMAIL": "agentgym@localhost",
    "GIT_COMMITTER_NAME": "agentgym",
    "GIT_COMMITTER_EMAIL": "agentgym@localhost",
    "LC_ALL": "C",
}


def git(directory: Path, *arguments: str, stdin: bytes | None = None) -> bytes:
    """Run git in `directory`; raises MachineError where there is no git, RuntimeError with its words where it fails."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(directory), "-c", "core.autocrlf=false", "-c", "core.quotePath=true", *arguments]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, env={**inherited, **_ENVIRONMENT}, check=False)
    except FileNotFoundError as error:
        raise MachineError("git is not installed", hint="apt-get install git") from error
    if done.returncode != 0:
        raise RuntimeError(f"git {' '.join(arguments)} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def tree_diff(old: Path, new: Path, old_files: frozenset[str], new_files: frozenset[str]) -> bytes:
    """`git diff --binary` that turns the named files of `old` into those of `new`."""
    with tempfile.TemporaryDirectory(prefix="agentgym-diff-") as name:
        work = Path(name)
        git(work, "init", "-q")
        # The trees' own .gitattributes must not convert line endings or hide a change: this file outranks them.
        (work / ".git/info/attributes").write_text("* !diff !text !eol !filter !ident !working-tree-encoding\n")
        _lay(old, work, old_files)
        git(work, "add", "-A", "-f", ".")
        git(work, "commit", "-q", "--allow-empty", "-m", "old")
        for path in old_files - new_files:
            (work / path).unlink()
        _lay(new, work, new_files)
        # Without its cache of sizes and times git must read every file: two versions may agree in both.
        (work / ".git/index").unlink(missing_ok=True)
        git(work, "add", "-A", "-f", ".")
        return git(
            work, "diff", "--cached", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-color", "HEAD"
        )


def _lay(source: Path, target: Path, files: frozenset[str]) -> None:
    for file in files:
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / file, target / file)
