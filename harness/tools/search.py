"""`search`: find text in the files of the workspace, as ripgrep does.

Regular expressions or literal text, globs, context, counts; `.gitignore` honoured, hidden and binary files skipped,
results in path order (so that a replay sees the same), long lines cut, and a cap that says how much more there is. Uses
`rg` where the image has it, else `git ls-files` or `find` with `grep`. The pattern travels on standard input, so no
quoting can break it.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Literal

from pydantic import Field

from harness.tools.base import Arguments, Observation, Tool, ToolContext
from harness.tools.text import readable, shorten

_MAX_LINE = 300

_SCRIPT = (files("harness.tools") / "search.sh").read_text(encoding="utf-8")


class SearchArguments(Arguments):
    pattern: str = Field(description="Regular expression (or text, with literal)", min_length=1)
    path: str = Field(".", description="File or directory to search", min_length=1)
    glob: str | None = Field(None, description='Only files like this, e.g. "*.py"')
    literal: bool = Field(False, description="Take the pattern as plain text")
    ignore_case: bool = Field(False, description="Ignore upper and lower case")
    context: int = Field(0, description="Lines to show around each match", ge=0, le=20)
    show: Literal["lines", "files", "counts"] = Field("lines", description="What to show per match or file")
    max_results: int = Field(50, description="Cap on the lines of the answer", ge=1, le=1000)


async def _search(context: ToolContext, arguments: SearchArguments) -> Observation:
    if "\n" in arguments.pattern:
        return Observation("Error: the pattern must be one line; search for one of its lines.", exit_code=1)
    glob = arguments.glob or ""
    if glob.startswith("!"):
        return Observation("Error: glob says which files to search; it cannot exclude.", exit_code=1)
    if "/" in glob and not glob.startswith("**/"):
        glob = "**/" + glob.lstrip("/")
    flags = [
        *(["-F"] if arguments.literal else []),
        *(["-i"] if arguments.ignore_case else []),
        *([f"-C{arguments.context}"] if arguments.context and arguments.show == "lines" else []),
        *({"lines": [], "files": ["-l"], "counts": ["-c"]}[arguments.show]),
    ]
    result = await context.sandbox.exec(
        _SCRIPT,
        env={
            "WORKDIR": context.workdir,
            "WHERE": arguments.path.rstrip("/") or "/",
            "GLOB": glob,
            "GLOBS": "\n".join(_alternatives(glob)),
            "FLAGS": " ".join(flags),
            "MAX": str(arguments.max_results),
        },
        stdin=arguments.pattern.encode() + b"\n",
        timeout=context.time_left(),
        output_limit=4_000_000,
    )
    if result.timed_out:
        return Observation("Error: the search took too long; narrow it with path or glob.", exit_code=None)
    body, _, summary = readable(result.output.replace(b"\1", b"\x1e")).rpartition("\ufffd")
    status, _, total = summary.strip().partition(" ")
    lines = [_line(line) for line in body.rstrip("\n").split("\n")] if body.strip() else []
    if arguments.show == "counts":
        lines = [line for line in lines if not line.endswith(":0")]
    if status not in ("0", "1"):
        return Observation("Error: " + ("\n".join(lines).strip() or f"cannot search {arguments.path}"), exit_code=1)
    if not lines:
        return Observation(f"No matches for {arguments.pattern!r} in {arguments.path}", exit_code=1)
    more = int(total) - len(lines) if arguments.show != "counts" else max(0, int(total) - arguments.max_results)
    if more:
        lines.append(f"[{more} more lines; narrow the search or raise max_results]")
    text, truncated = shorten("\n".join(lines), context.max_chars, advice="narrow the search")
    return Observation(text, truncated=truncated or more > 0)


def _alternatives(glob: str) -> list[str]:
    """A glob without braces for each way to read its braces: "*.{c,h}" -> ["*.c", "*.h"]."""
    match = re.search(r"\{([^{}]*)\}", glob)
    if match is None:
        return [glob]
    return [
        way for part in match[1].split(",") for way in _alternatives(glob[: match.start()] + part + glob[match.end() :])
    ]


def _line(line: str) -> str:
    line = line.removeprefix("./")
    return line if len(line) <= _MAX_LINE else line[:_MAX_LINE] + " [...]"


SEARCH = Tool(
    "search",
    "Find text in files. Honours .gitignore, skips hidden and binary files, shows file:line:text.",
    SearchArguments,
    _search,
    changes_files=False,
)
