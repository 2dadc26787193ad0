"""Diffs hold every change, whatever the files' times, attributes or names."""

from __future__ import annotations

import os

from agentgym.tasks.diff import tree_diff


def lay(root, files):
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
        os.utime(root / name, (1_000_000_000, 1_000_000_000))
    return frozenset(files)


def diff(tmp_path, old, new) -> bytes:
    return tree_diff(tmp_path / "old", tmp_path / "new", lay(tmp_path / "old", old), lay(tmp_path / "new", new))


def test_a_change_of_the_same_size_and_time_is_seen(tmp_path):
    assert b"-a\n+b\n" in diff(tmp_path, {"x": b"a\n"}, {"x": b"b\n"})


def test_the_trees_own_attributes_hide_nothing(tmp_path):
    attributes = {".gitattributes": b"*.txt -diff text eol=lf\n*.lock binary\n"}

    patch = diff(
        tmp_path,
        {**attributes, "a.txt": b"1\r\n", "b.lock": b"1\n"},
        {**attributes, "a.txt": b"2\r\n", "b.lock": b"2\n"},
    )

    assert b"-1\r\n+2\r\n" in patch
    assert b"GIT binary patch" not in patch


def test_ignored_and_executable_files_count(tmp_path):
    files = {".gitignore": b"*.log\n", "kept.log": b"1\n", "tool": b"1\n"}
    lay(tmp_path / "new", files)
    (tmp_path / "new/tool").chmod(0o755)

    patch = tree_diff(
        tmp_path / "old", tmp_path / "new", lay(tmp_path / "old", {".gitignore": b"*.log\n"}), frozenset(files)
    )

    assert b"kept.log" in patch
    assert b"new file mode 100755" in patch


def test_no_difference_is_an_empty_diff(tmp_path):
    assert diff(tmp_path, {"x": b"a\n"}, {"x": b"a\n"}) == b""
