"""Where a piece of text stands in a file, and what is nearest where it does not.

Line endings are the one thing that may differ: "\\n" in the wanted text also matches "\\r\\n". Everything else, tabs
and trailing blanks included, is exact; a near miss is reported, never edited.
"""

from __future__ import annotations

import difflib
import re
from itertools import islice

from harness.tools.textfile import LINE, unix

_CONTEXT_LINES = 3
_MAX_LINES_COMPARED = 5_000


def occurrences(text: str, wanted: str) -> list[tuple[int, int]]:
    """Spans of `wanted` in `text`; overlapping ones too, for two ways to match are ambiguous even where they overlap."""
    pattern = re.compile("\r?\n".join(map(re.escape, unix(wanted).split("\n"))))
    spans: list[tuple[int, int]] = []
    start = 0
    while match := pattern.search(text, start):
        spans.append(match.span())
        start = match.start() + 1
    return spans


def apart(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans left to right without those that overlap one before."""
    kept: list[tuple[int, int]] = []
    for span in spans:
        if not kept or span[0] >= kept[-1][1]:
            kept.append(span)
    return kept


def line_of(text: str, offset: int) -> int:
    """1-based line number of an offset."""
    return text.count("\n", 0, offset) + 1


def near_miss(text: str, wanted: str) -> str:
    """What to tell a policy whose text was not found: a match but for blanks, or the most similar lines."""
    lines = [unix(line).rstrip("\n") for line in LINE.findall(text)]
    pieces = unix(wanted).strip("\n").split("\n")
    if found := _ignoring_blanks(lines, pieces):
        return "These lines differ from it only in blanks (spaces, tabs); copy them exactly:\n" + numbered(
            lines, *found
        )
    anchor = max(pieces, key=lambda piece: len(piece.strip()))
    offset = pieces.index(anchor)
    close = difflib.get_close_matches(anchor, lines[:_MAX_LINES_COMPARED], n=1, cutoff=0.5)
    if not close:
        return "Nothing similar is in the file; view it first."
    first = max(0, lines.index(close[0]) - offset)
    return "The most similar lines are:\n" + numbered(
        lines, first, min(len(lines), first + len(pieces) + _CONTEXT_LINES)
    )


def _ignoring_blanks(lines: list[str], pieces: list[str]) -> tuple[int, int] | None:
    bare_lines, bare_pieces = [" ".join(x.split()) for x in lines], [" ".join(x.split()) for x in pieces]
    if not any(bare_pieces):
        return None
    for first in range(len(lines) - len(pieces) + 1):
        if bare_lines[first : first + len(pieces)] == bare_pieces:
            return first, first + len(pieces)
    return None


def numbered(lines: list[str], first: int, end: int, *, max_line: int = 500) -> str:
    """Lines [first, end) (0-based) with 1-based numbers, as `cat -n` shows them."""
    shown = []
    for number, line in enumerate(islice(lines, first, end), first + 1):
        rest = len(line) - max_line
        shown.append(f"{number:6}\t{line[:max_line]}" + (f" [... {rest} characters more]" if rest > 0 else ""))
    return "\n".join(shown)
