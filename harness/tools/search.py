"""`search`: find text in the files of the workspace, as ripgrep does.

Regular expressions or literal text, globs, context, counts; `.gitignore` honoured, hidden and binary files skipped,
results in path order (so that a replay sees the same), long lines cut, and a cap that says how much more there is. Uses
`rg` where the image has it, else `git ls-files` or `find` with `grep`. The pattern travels on standard input, so no
quoting can break it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.tools.base import Arguments, Observation, Tool, ToolContext
from harness.tools.text import readable, shorten

_MAX_LINE = 300

# Lines of the answer, then a line "\1<exit status>"; awk counts what it does not print.
_RG = """
rg --no-config --color never --sort path --no-messages -H -n $FLAGS ${GLOB:+--glob "$GLOB"} -f - -- "$WHERE" 2>&1
"""
_GREP = """
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cat > "$work/pattern"
dialect=-E
printf x | grep -P x >/dev/null 2>&1 && dialect=-P
case " $FLAGS " in *" -F "*) dialect= ;; esac
printf '' | grep $dialect -f "$work/pattern" 2> "$work/error"
[ $? -le 1 ] || { cat "$work/error"; exit 2; }
if git -c safe.directory='*' rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    if [ -n "$GLOB" ] && [ -d "$WHERE" ]; then
        case $GLOB in */*) spec=":(glob)${WHERE%/}/$GLOB" ;; *) spec=":(glob)${WHERE%/}/**/$GLOB" ;; esac
    else spec=$WHERE; fi
    case $spec in :*./*) spec=":(glob)${spec#*./}" ;; esac
    git -c safe.directory='*' ls-files -coz --exclude-standard -- "$spec"
else
    case $GLOB in */*) find "$WHERE" -type f -not -path '*/.*' -path "*${GLOB#/}" -print0 ;;
        *) find "$WHERE" -type f -not -path '*/.*' -name "${GLOB:-*}" -print0 ;; esac
fi | tr '\\0' '\\n' | grep -v '^\\(.*/\\)\\{0,1\\}\\.[^/.]' | LC_ALL=C sort -u | tr '\\n' '\\0' > "$work/files"
[ -s "$work/files" ] || exit 1
xargs -0 grep $dialect -s -I -H -n $FLAGS -f "$work/pattern" -- < "$work/files" 2>&1
[ $? -eq 0 ] || exit 1
"""
_SCRIPT = """
cd "$WORKDIR" || exit 2
{{ ( if command -v rg >/dev/null 2>&1 && [ -z "$NO_RG" ]; then {rg}; else {grep}; fi ); printf '\\001%d\\n' $?; }} | awk
-v max="$MAX" ' /^\\001/ {{ status = substr($0, 2); next }} n++ < max {{ print substr($0, 1, 2000) }} END {{ printf
"\\001%d %d\\n", status, n }}'
"""
SCRIPT = _SCRIPT.format(rg=_RG.strip(), grep=_GREP.strip())


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
    flags = [
        *(["-F"] if arguments.literal else []),
        *(["-i"] if arguments.ignore_case else []),
        *([f"-C{arguments.context}"] if arguments.context and arguments.show == "lines" else []),
        *({"lines": [], "files": ["-l"], "counts": ["-c"]}[arguments.show]),
    ]
    result = await context.sandbox.exec(
        SCRIPT,
        env={
            "WORKDIR": context.workdir,
            "WHERE": arguments.path,
            "GLOB": arguments.glob or "",
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
        return Observation(f"No matches for {arguments.pattern!r} in {arguments.path}.", exit_code=1)
    more = int(total) - len(lines) if arguments.show != "counts" else max(0, int(total) - arguments.max_results)
    if more:
        lines.append(f"[{more} more lines; narrow the search or raise max_results]")
    text, truncated = shorten("\n".join(lines), context.max_chars, advice="narrow the search")
    return Observation(text, truncated=truncated or more > 0)


def _line(line: str) -> str:
    line = line.removeprefix("./")
    return line if len(line) <= _MAX_LINE else line[:_MAX_LINE] + " [...]"


SEARCH = Tool(
    "search",
    "Find text in files. Honours .gitignore, skips hidden and binary files, shows file:line:text.",
    SearchArguments,
    _search,
)
