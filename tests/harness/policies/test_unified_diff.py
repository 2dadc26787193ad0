"""One reader of diffs: what git writes about two texts, read back, is the two texts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.policies.edit_script import changes
from harness.policies.gold_edits import edits
from harness.policies.protocol import PolicyError
from harness.policies.unified_diff import read_diff

WORDS = ["-- b/x", "++ b/y", "", "diff --git a/x b/x", "@@ -1 +1 @@", "\\ x", "a\rb\f", "é"]
LINES = st.lists(st.sampled_from(WORDS), max_size=12)


def git_diff(folder: Path, before: str, after: str, context: int = 3) -> str:
    for name, text in (("a", before), ("b", after)):
        (folder / name).write_text(text, newline="")
    command = ["git", "diff", "--no-index", "--no-color", f"-U{context}", "a", "b"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).stdout.decode()


def split(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def apply(diff: str, before: str) -> str:
    """The hunks in their places, by the line of the new text that each says it begins at."""
    after, left = [], split(before)
    for file in read_diff(diff):
        for hunk in file.hunks:
            while len(after) < (hunk.line - 1 if hunk.after else hunk.line):
                after.append(left.pop(0))
            lines = split(hunk.before)
            assert left[: len(lines)] == lines
            after, left = [*after, *split(hunk.after)], left[len(lines) :]
    return "".join([*after, *left])


@settings(max_examples=30, deadline=None)
@given(before=LINES, after=LINES, ends=st.tuples(st.booleans(), st.booleans()), context=st.integers(0, 3))
def test_what_git_wrote_about_two_texts_makes_one_of_the_other(tmp_path_factory, before, after, ends, context) -> None:
    old, new = ("\n".join(lines) + "\n" * end for lines, end in zip((before, after), ends, strict=True))
    assert apply(git_diff(tmp_path_factory.mktemp("diff"), old, new, context), old) == new


def test_lines_of_a_file_that_look_like_headers_are_lines(tmp_path: Path) -> None:
    text = git_diff(tmp_path, "-- old\n++ b/c\nkept\n", "-- new\n++ b/c\nkept\n")
    (change,) = changes(text)
    assert (change.path, change.old, change.new) == ("b", ("-- old",), ("-- new",))
    (call,) = edits(text.encode())
    assert call["old_str"] == "-- old\n++ b/c\nkept\n"


def test_a_last_line_without_its_newline_stays_in_one_change(tmp_path: Path) -> None:
    text = git_diff(tmp_path, "one\nlast", "one\nlast line")
    (change,) = changes(text)
    assert (change.old, change.new) == (("last",), ("last line",))
    (hunk,) = next(read_diff(text)).hunks
    assert (hunk.before, hunk.after) == ("one\nlast", "one\nlast line")


def test_a_new_empty_file_is_made() -> None:
    patch = b"diff --git a/n.py b/n.py\nnew file mode 100644\nindex 0000000..e69de29\n"
    assert list(edits(patch)) == [{"command": "create", "path": "n.py", "file_text": ""}]


def test_a_diff_without_git_lines_is_read_file_by_file() -> None:
    text = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-3\n+4\n"
    assert [(change.path, change.old) for change in changes(text)] == [("x", ("1",)), ("y", ("3",))]


@pytest.mark.parametrize("hunk", ["@@ -1,3 +1,2 @@\n a\n-b\n", "@@ -1 +1 @@\n*a\n", "@@ -1 +1 @@\n-a\n-b\n"])
def test_a_hunk_that_is_not_as_long_as_it_says_is_refused(hunk: str) -> None:
    with pytest.raises(PolicyError, match="not as long as it says"):
        list(read_diff("--- a/x\n+++ b/x\n" + hunk))
