"""A patch as calls of the edit tool, one per hunk: what a policy without a shell would do, and a demonstration for one with both.

A new file is one `create`; a hunk replaces its old lines by its new ones, found by the context around them. What an edit tool
cannot do is refused when the script is made: binary files, deletions, renames, modes, text in no UTF-8. A hunk whose lines
stand more than once in the file is refused by the tool itself when it is played, and the episode's grade shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.policies.protocol import PolicyError
from harness.policies.unified_diff import Hunk, read_diff

_UNPLAYABLE = ("GIT binary patch", "Binary files ", "deleted file mode", "rename from", "copy from", "old mode")


def edits(patch: bytes) -> Iterator[dict[str, Any]]:
    """Arguments of the edit tool, call by call. Raises PolicyError for a patch that it cannot play."""
    try:
        text = patch.decode()
    except UnicodeDecodeError as error:
        raise PolicyError(f"the patch is not all UTF-8 ({error.reason}), so the edit tool cannot play it") from None
    for file in read_diff(text):
        if fault := next((word for word in _UNPLAYABLE if f"\n{word}" in file.head), None):
            raise PolicyError(
                f"the patch holds {fault.strip()!r}, which the edit tool cannot play; use a profile with bash"
            )
        path = file.path
        if "\nnew file mode " in file.head:
            if "\nnew file mode 100644" not in file.head:
                raise PolicyError(f"{path} is made with another mode than 100644; use a profile with bash")
            yield {"command": "create", "path": path, "file_text": "".join(hunk.after for hunk in file.hunks)}
            continue
        for hunk in file.hunks:
            yield _edit(path, hunk)


def _edit(path: str, hunk: Hunk) -> dict[str, Any]:
    if not hunk.before:  # nothing around it to find it by: git writes the line after which it comes
        return {"command": "insert", "path": path, "insert_line": max(0, hunk.line - 1), "insert_text": hunk.after}
    return {"command": "str_replace", "path": path, "old_str": hunk.before, "new_str": hunk.after}
