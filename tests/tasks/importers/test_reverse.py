"""Reversing a diff as text undoes it, as git sees it."""

from __future__ import annotations

import subprocess

import pytest

from agentgym.tasks.importers.reverse import reverse_patch

STATES = {
    "changed lines": ({"a.txt": b"one\ntwo\nthree\n"}, {"a.txt": b"one\n2\n2.5\nthree\nfour\n"}),
    "no newline at the end": ({"a.txt": b"one\ntwo"}, {"a.txt": b"one\n2\n"}),
    "newline lost": ({"a.txt": b"one\ntwo\n"}, {"a.txt": b"one\n2"}),
    "added and removed files": ({"gone.txt": b"x\n"}, {"new dir/added.txt": b"y\nz\n"}),
    "empty file": ({"a": b"1\n"}, {"a": b"1\n", "empty": b""}),
    "carriage returns": ({"a.txt": b"one\r\ntwo\r\n"}, {"a.txt": b"one\r\n2\r\n"}),
    "form feeds and unicode": ({"a.txt": "é\x0c\u2028x\n".encode()}, {"a.txt": "ü\x0c\u2028y\n".encode()}),
    "names with unicode": ({"naïve.txt": b"1\n"}, {"naïve.txt": b"2\n"}),
    "binary": ({"a.bin": bytes(range(256))}, {"a.bin": bytes(reversed(range(256)))}),
    "binary added": ({"a": b"1\n"}, {"a": b"1\n", "b.bin": b"\0\1\2" * 50}),
    "lines that look like headers": ({"a.txt": b"-- x\n++ y\n"}, {"a.txt": b"-- z\n++ y\n--- a\n+++ b\n"}),
    "rename with edit": ({"old.txt": b"1\n2\n3\n4\n5\n6\n7\n8\n"}, {"new.txt": b"1\n2\n3\n4\n5\n6\n7\nX\n"}),
}


def git(repository, *arguments: str, stdin: bytes | None = None) -> bytes:
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "core.autocrlf=false"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=repository, input=stdin, capture_output=True, check=True
    ).stdout


def lay(repository, files: dict[str, bytes]) -> None:
    for path in [path for path in repository.rglob("*") if path.is_file() and ".git" not in path.parts]:
        path.unlink()
    for name, data in files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_bytes(data)


@pytest.mark.parametrize("name", STATES)
def test_the_reverse_of_a_patch_undoes_it(tmp_path, name):
    before, after = STATES[name]
    git(tmp_path, "init", "-q")
    lay(tmp_path, before)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "before")
    lay(tmp_path, after)
    if name.startswith("binary"):
        (tmp_path / next(file for file in after if file.endswith(".bin"))).chmod(0o755)
    git(tmp_path, "add", "-A")
    patch = git(tmp_path, "diff", "--cached", "--binary", "-M").decode("utf-8", "surrogateescape")
    git(tmp_path, "commit", "-q", "-m", "after")

    git(tmp_path, "apply", "--index", "-", stdin=reverse_patch(patch).encode("utf-8", "surrogateescape"))

    assert git(tmp_path, "diff", "--cached", "HEAD~1") == b""


def test_reversing_twice_gives_the_same_change(tmp_path):
    patch = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ def f():\n-a\n+b\n c\n"

    assert reverse_patch(reverse_patch(patch)) == patch
