"""Paths a policy names -> real paths inside the workspace.

Resolved in the sandbox, since only it knows its links. What leads outside the workspace, by `..`, by an absolute path
or through a link, is refused: `bash` is there for the rest of the machine.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Literal

from harness.tools.base import ToolContext

# The last existing ancestor is resolved, so that a new file under a linked directory is judged by where it would really
# be.
_RESOLVE = """
root=$(readlink -f -- "$AGENTGYM_ROOT") || exit 3
rest=
path=$AGENTGYM_PATH
while [ ! -e "$path" ] && [ ! -L "$path" ]; do rest=/${path##*/}$rest; path=${path%/*}; [ -n "$path" ] || path=/; done
real=$(readlink -f -- "$path") || exit 4
if [ -d "$real" ]; then kind=directory; elif [ -f "$real" ]; then kind=file; else kind=other; fi
[ -z "$rest" ] || kind=missing
[ "$real" != / ] || real=
printf '%s\\n' "$kind" "${root%/}" "$real$rest"
"""


class PathRefused(ValueError):
    """The path cannot be used; the message is for the policy."""


@dataclass(frozen=True, slots=True)
class WorkspacePath:
    """real: absolute, free of links. shown: relative to the workspace, as messages name it."""

    real: str
    shown: str
    kind: Literal["file", "directory", "missing"]


async def resolve(context: ToolContext, path: str) -> WorkspacePath:
    """Raises PathRefused for what is outside the workspace or is neither file nor directory."""
    if "\n" in path:
        raise PathRefused("a path cannot hold a newline")
    wanted = posixpath.normpath(posixpath.join(context.workdir, path))
    result = await context.sandbox.exec(
        _RESOLVE, env={"AGENTGYM_ROOT": context.workdir, "AGENTGYM_PATH": wanted}, timeout=context.time_left()
    )
    parts = result.text.split("\n")
    if result.exit_code != 0 or len(parts) < 3:
        raise PathRefused(f"{path} cannot be resolved (a loop of links, or a name too long)")
    kind, root, real = parts[:3]
    if real != root and not real.startswith(root + "/"):
        raise PathRefused(f"{path} leads outside the workspace {context.workdir}; this tool works only inside it")
    if kind == "other":
        raise PathRefused(f"{path} is neither a file nor a directory")
    shown = posixpath.relpath(real, root) if real != root else "."
    return WorkspacePath(real, shown, "missing" if kind == "missing" else "file" if kind == "file" else "directory")
