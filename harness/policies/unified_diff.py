"""Reads git's unified diffs: which files, and in each hunk which lines stay, go and come.

A hunk's header says how many lines it has, and just so many are read; so a removed line that begins with `-- ` (`---` in the
diff), or an added `++ b/x`, is a line of the file and no header. Only a newline ends a line of a diff: a file's own carriage
returns and form feeds stand within one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from harness.policies.protocol import PolicyError

_HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_TARGET = re.compile(r"^\+\+\+ b/(.*?)\t?$", re.MULTILINE)
_NAMES = re.compile(r"^diff --git a/(.+) b/\1$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Line:
    """kind: " " stays, "-" goes, "+" comes. text: with its newline, unless the file ends without one here."""

    kind: Literal[" ", "-", "+"]
    text: str


@dataclass(slots=True)
class Hunk:
    """line: where its new lines begin in the file, 1-based."""

    line: int
    lines: list[Line] = field(default_factory=list)

    @property
    def before(self) -> str:
        return "".join(line.text for line in self.lines if line.kind != "+")

    @property
    def after(self) -> str:
        return "".join(line.text for line in self.lines if line.kind != "-")


@dataclass(slots=True)
class FileDiff:
    """What a diff says of one file. head: the lines before its first hunk, which say whether it is new, renamed, binary, …"""

    head: str = ""
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def path(self) -> str:
        """Raises PolicyError where the diff does not tell (git quotes a name that is not plain text)."""
        found = _TARGET.search(self.head) or _NAMES.search(self.head)  # an empty new file has no +++ line
        if found is None:
            raise PolicyError(f"cannot tell which file this part of the patch is about: {self.head[:200]!r}")
        return found[1]


def read_diff(text: str) -> Iterator[FileDiff]:
    """The files of a diff, in its order. Raises PolicyError for a hunk that does not have the lines it says."""
    found = FileDiff()
    lines = iter(text.removesuffix("\n").split("\n"))
    for line in lines:
        if header := _HUNK.match(line):
            old, new = (int(count or 1) for count in header.group(1, 3))
            found.hunks.append(Hunk(int(header[2]), list(_lines(lines, old, new))))
        elif line.startswith("\\"):  # "No newline at end of file", of the last line that was read
            _end_without_newline(found)
        else:
            if line.startswith("diff --git ") or (line.startswith("--- ") and found.hunks):
                if found.head:
                    yield found
                found = FileDiff()
            found.head += f"{line}\n"
    if found.hunks or found.head.strip():
        yield found


def _lines(lines: Iterator[str], old: int, new: int) -> Iterator[Line]:
    """The lines of a hunk with `old` lines before the change and `new` after it."""
    last: Line | None = None
    while old or new:
        line = next(lines, None)
        if line is not None and line.startswith("\\") and last is not None:
            last = replace(last, text=last.text.removesuffix("\n"))
            continue
        if last is not None:
            yield last
        kind = (line or " ")[0] if line is not None else ""
        old, new = old - (kind in (" ", "-")), new - (kind in (" ", "+"))
        if kind not in (" ", "-", "+") or old < 0 or new < 0:
            raise PolicyError(f"a hunk of the patch is not as long as it says: it ends at {line!r}")
        last = Line(cast(Literal[" ", "-", "+"], kind), f"{(line or '')[1:]}\n")
    if last is not None:
        yield last


def _end_without_newline(found: FileDiff) -> None:
    if found.hunks and found.hunks[-1].lines:
        lines = found.hunks[-1].lines
        lines[-1] = replace(lines[-1], text=lines[-1].text.removesuffix("\n"))
