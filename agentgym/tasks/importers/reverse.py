"""The opposite of a git diff, as text: what undoes it, without a repository to apply it to.

Needed for SWE-smith, whose rows hold the patch that puts the bug in. Covers what git writes: hunks, files added and deleted, mode
changes, renames and binary parts (a git binary patch carries both directions already).
"""

from __future__ import annotations

import re

_SWAPS = {
    "new file mode": "deleted file mode",
    "rename from": "rename to",
    "old mode": "new mode",
    "copy from": "copy to",
}
_SWAPS |= {right: left for left, right in _SWAPS.items()}
_HUNK = re.compile(r"@@ -(\S+) \+(\S+) @@(.*)", re.DOTALL)


def reverse_patch(patch: str) -> str:
    """The diff that turns the new state back into the old."""
    files = re.split(r"^(?=diff --git )", patch, flags=re.MULTILINE)
    return "".join(_reverse_file(text) if text.startswith("diff --git ") else text for text in files)


def _reverse_file(text: str) -> str:
    # Only \n ends a line: \r and exotic line ends are content.
    lines = re.findall(r"[^\n]*\n|[^\n]+\Z", text)
    header: list[str] = []
    while lines and not lines[0].startswith(("@@ ", "GIT binary patch")):
        header.append(lines.pop(0))
    if lines and lines[0].startswith("GIT binary patch"):
        return "".join([*_reverse_header(header), *_reverse_binary(lines)])
    return "".join([*_reverse_header(header), *_reverse_hunks(lines)])


def _reverse_header(lines: list[str]) -> list[str]:
    """Swap the two sides; --- stays before +++, and "old" lines before "new" ones, as git expects."""
    out: list[str] = []
    old_name = next((line for line in lines if line.startswith("--- ")), None)
    new_name = next((line for line in lines if line.startswith("+++ ")), None)
    renamed = {line.split(" ", 2)[1]: line.split(" ", 2)[2] for line in lines if line.startswith("rename ")}
    modes = {
        line.split(" ", 1)[0]: line.rsplit(" ", 1)[1] for line in lines if line.startswith(("old mode ", "new mode "))
    }
    for line in lines:
        if line.startswith("diff --git "):
            out.append(_swap_names(line, renamed))
        elif line.startswith("index "):
            match = re.match(r"index (\w+)\.\.(\w+)(.*)", line, re.DOTALL)
            out.append(f"index {match.group(2)}..{match.group(1)}{match.group(3)}" if match else line)
        elif line.startswith("--- ") and new_name:
            out.append("--- " + _side(new_name[4:], "b/", "a/"))
        elif line.startswith("+++ ") and old_name:
            out.append("+++ " + _side(old_name[4:], "a/", "b/"))
        elif line.startswith("rename "):
            out.append(f"rename {line.split(' ', 2)[1]} {renamed['to' if line.startswith('rename from') else 'from']}")
        elif line.startswith(("old mode ", "new mode ")):
            out.append(f"{line.split(' ', 1)[0]} mode {modes['new' if line.startswith('old') else 'old']}")
        else:
            word = next((key for key in _SWAPS if line.startswith(f"{key} ")), None)
            out.append(_SWAPS[word] + line[len(word) :] if word else line)
    return out


def _side(name: str, old: str, new: str) -> str:
    return re.sub(rf'^("?){re.escape(old)}', rf"\g<1>{new}", name)


def _swap_names(line: str, renamed: dict[str, str]) -> str:
    if not renamed:
        return line
    old, new = renamed["from"].rstrip("\n"), renamed["to"].rstrip("\n")
    left, right = (
        (f'"b/{old[1:]}' if old.startswith('"') else f"b/{old}"),
        (f'"a/{new[1:]}' if new.startswith('"') else f"a/{new}"),
    )
    return f"diff --git {right} {left}\n"


def _reverse_hunks(lines: list[str]) -> list[str]:
    out: list[str] = []
    added: list[str] = []
    removed: list[str] = []
    last: list[str] = out

    def flush() -> None:
        out.extend(removed)
        out.extend(added)
        removed.clear()
        added.clear()

    for line in lines:
        if line.startswith("+"):
            removed.append("-" + line[1:])
            last = removed
        elif line.startswith("-") and not line.startswith("-- \n"):
            added.append("+" + line[1:])
            last = added
        elif line.startswith("\\"):
            last.append(line)
        else:
            flush()
            match = _HUNK.match(line)
            out.append(f"@@ -{match.group(2)} +{match.group(1)} @@{match.group(3)}" if match else line)
            last = out
    flush()
    return out


def _reverse_binary(lines: list[str]) -> list[str]:
    """Two blocks, forward and reverse, each ended by an empty line."""
    text = "".join(lines[1:])
    blocks = re.findall(r"(?:literal|delta) \d+\n(?:.+\n)*\n", text)
    return [lines[0], *reversed(blocks)] if len(blocks) == 2 else lines
