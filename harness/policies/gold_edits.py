"""A patch as calls of the edit tool, one per hunk: what a policy without a shell would do, and a demonstration for one with both.

A new file is one `create`; a hunk replaces its old lines by its new ones, found by the context around them. What an edit tool
cannot do is refused when the script is made: binary files, deletions, renames, modes, text in no UTF-8. A hunk whose lines
stand more than once in the file is refused by the tool itself when it is played, and the episode's grade shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.policies.protocol import PolicyError

_FILE = re.compile(r"^diff --git .*$", re.MULTILINE)
_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@.*$")
_UNPLAYABLE = ("GIT binary patch", "Binary files ", "deleted file mode", "rename from", "copy from", "old mode")


@dataclass(slots=True)
class _Hunk:
    """line: where its new lines begin, 1-based. before, after: its lines, without and with the change."""

    line: int
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


def edits(patch: bytes) -> Iterator[dict[str, Any]]:
    """Arguments of the edit tool, call by call. Raises PolicyError for a patch that it cannot play."""
    try:
        text = patch.decode()
    except UnicodeDecodeError as error:
        raise PolicyError(f"the patch is not all UTF-8 ({error.reason}), so the edit tool cannot play it") from None
    for section in _FILE.split(text)[1:]:
        head, _, body = section.partition("\n@@ ")
        if fault := next((word for word in _UNPLAYABLE if f"\n{word}" in head or head.startswith(word)), None):
            raise PolicyError(
                f"the patch holds {fault.strip()!r}, which the edit tool cannot play; use a profile with bash"
            )
        path = _path(head)
        hunks = list(_hunks(f"@@ {body}")) if body else []
        if "\nnew file mode " in head:
            if "\nnew file mode 100644" not in head:
                raise PolicyError(f"{path} is made with another mode than 100644; use a profile with bash")
            yield {"command": "create", "path": path, "file_text": "".join(hunks[0].after) if hunks else ""}
            continue
        for hunk in hunks:
            yield _edit(path, hunk)


def _edit(path: str, hunk: _Hunk) -> dict[str, Any]:
    old, new = "".join(hunk.before), "".join(hunk.after)
    if not old:  # nothing around it to find it by: git writes the line after which it comes
        return {"command": "insert", "path": path, "insert_line": max(0, hunk.line - 1), "insert_text": new}
    return {"command": "str_replace", "path": path, "old_str": old, "new_str": new}


def _path(head: str) -> str:
    found = re.search(r"^\+\+\+ (?:b/(.*?)|(\"b/.*\"))\t?$", head, re.MULTILINE)
    if found and found[1]:
        return found[1]
    named = re.match(r" a/(.+) b/\1$", head.split("\n", 1)[0])  # an empty new file has no +++ line
    if named is None:
        raise PolicyError(f"cannot tell which file this part of the patch is about: {head[:200]!r}")
    return named[1]


def _hunks(body: str) -> Iterator[_Hunk]:
    hunk: _Hunk | None = None
    touched: list[list[str]] = []
    # Only "\n" ends a line of a patch; a file's own form feeds and carriage returns stand within one.
    for line in body.removesuffix("\n").split("\n"):
        if found := _HUNK.match(line):
            if hunk is not None:
                yield hunk
            hunk = _Hunk(int(found[1]))
        elif hunk is not None and line.startswith("\\"):  # "No newline at end of file", about the line before
            for lines in touched:
                lines[-1] = lines[-1].removesuffix("\n")
        elif hunk is not None:
            touched = {"-": [hunk.before], "+": [hunk.after]}.get(line[:1], [hunk.before, hunk.after])
            for lines in touched:
                lines.append(f"{line[1:]}\n")
    if hunk is not None:
        yield hunk
