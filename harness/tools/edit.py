"""`edit`: view and change one file of the workspace.

Changes nothing but what was asked: encoding, BOM, line endings, tabs, mode and the trailing newline stay. A replacement
needs text that stands exactly once (or an explicit `all`); where it does not, the answer says what to do and shows the
closest lines. Content travels over the sandbox's file channel, never in a command line. `undo` takes back this tool's
own last change of a file, and only if nothing else has changed the file since.
"""

from __future__ import annotations

import shlex
from typing import Literal

from pydantic import Field

from agentgym.sandbox.protocol import FileError
from harness.tools.base import Arguments, Observation, Tool, ToolContext
from harness.tools.match import apart, line_of, near_miss, numbered, occurrences
from harness.tools.text import readable, shorten
from harness.tools.textfile import NotText, TextFile, native, unix
from harness.tools.workspace import PathRefused, WorkspacePath, resolve

_MAX_FILE_BYTES = 10_000_000
_SNIPPET_LINES = 4


class EditArguments(Arguments):
    command: Literal["view", "create", "str_replace", "insert", "undo"] = Field(description="What to do")
    path: str = Field(description="File, relative to the workspace or absolute", min_length=1)
    old_str: str | None = Field(None, description="str_replace: exact text to replace; must occur once")
    new_str: str | None = Field(None, description="str_replace: its replacement")
    all: bool = Field(False, description="str_replace: replace every occurrence")
    file_text: str | None = Field(None, description="create: content of the new file")
    insert_line: int | None = Field(None, description="insert: line after which to insert, 0 for the top", ge=0)
    insert_text: str | None = Field(None, description="insert: lines to insert")
    view_range: list[int] | None = Field(
        None, description="view: first and last line, -1 for the end", min_length=2, max_length=2
    )


class _Failed(ValueError):
    """The edit was not made; the message is for the policy."""


async def _edit(context: ToolContext, arguments: EditArguments) -> Observation:
    try:
        path = await resolve(context, arguments.path)
        text, truncated = await _COMMANDS[arguments.command](context, path, arguments)
    except (PathRefused, _Failed, NotText) as error:
        return Observation(f"Error: {error}", exit_code=1)
    except FileError as error:
        return Observation(f"Error: {arguments.path}: {error}", exit_code=1)
    return Observation(text, truncated=truncated)


async def _view(context: ToolContext, path: WorkspacePath, arguments: EditArguments) -> tuple[str, bool]:
    if path.kind == "directory":
        return await _list(context, path)
    lines = [unix(line).rstrip("\n") for line in (await _read(context, path)).lines]
    first, last = arguments.view_range or [1, -1]
    last = len(lines) if last == -1 else min(last, len(lines))
    if first < 1 or (lines and first > len(lines)) or last < min(first, len(lines)):
        raise _Failed(f"view_range {arguments.view_range} does not fit: {path.shown} has {len(lines)} lines")
    if not lines:
        return f"({path.shown} is empty)", False
    shown, size = [], 0
    for index in range(first - 1, last):
        shown.append(numbered(lines, index, index + 1))
        size += len(shown[-1]) + 1
        if size > context.max_chars and index + 1 < last:
            note = f"[lines {index + 2}-{last} of {len(lines)} left out; view them with view_range]"
            return "\n".join([*shown[:-1], numbered(lines, index, index + 1), note]), True
    whole = first == 1 and last == len(lines)
    return "\n".join(shown if whole else [*shown, f"[lines {first}-{last} of {len(lines)}]"]), False


async def _list(context: ToolContext, path: WorkspacePath) -> tuple[str, bool]:
    result = await context.sandbox.exec(
        f"cd {shlex.quote(path.real)} && find . -mindepth 1 -maxdepth 2 -not -path '*/.*' | sort",
        timeout=context.time_left(),
    )
    listing = readable(result.output).replace("./", "")
    return shorten(f"{path.shown}/ holds:\n{listing.strip() or '(nothing)'}", context.max_chars)


async def _create(context: ToolContext, path: WorkspacePath, arguments: EditArguments) -> tuple[str, bool]:
    if arguments.file_text is None:
        raise _Failed("create needs file_text")
    if path.kind != "missing":
        raise _Failed(f"{path.shown} exists; change it with str_replace or insert, or remove it first with bash")
    await _write(context, path, None, arguments.file_text.encode())
    return f"Created {path.shown} ({len(TextFile(arguments.file_text).lines)} lines).", False


async def _replace(context: ToolContext, path: WorkspacePath, arguments: EditArguments) -> tuple[str, bool]:
    if not arguments.old_str:
        raise _Failed("str_replace needs a non-empty old_str: the exact text to replace")
    if arguments.new_str is None:
        raise _Failed('str_replace needs new_str; give "" to delete the text')
    if unix(arguments.old_str) == unix(arguments.new_str):
        raise _Failed("old_str and new_str are the same; nothing to change")
    before = await _read(context, path)
    spans = occurrences(before.text, arguments.old_str)
    if not spans:
        raise _Failed(f"old_str is not in {path.shown}. {near_miss(before.text, arguments.old_str)}")
    if len(spans) > 1 and not arguments.all:
        places = ", ".join(str(line_of(before.text, start)) for start, _ in spans[:20])
        raise _Failed(
            f"old_str occurs {len(spans)} times in {path.shown} (lines {places}). Add lines around it until it is "
            "unique, or set all to true."
        )
    spans = apart(spans)
    pieces, end = [], 0
    for start, stop in spans:
        here = before.text[start:stop]
        eol = before.eol if "\n" not in here else "\r\n" if "\r\n" in here else "\n"
        pieces += [before.text[end:start], native(arguments.new_str, eol)]
        end = stop
    after = before.with_text("".join([*pieces, before.text[end:]]))
    await _write(context, path, before.encode(), after.encode())
    many = f" in {len(spans)} places" if len(spans) > 1 else ""
    line = line_of(before.text, spans[0][0])
    return f"Edited {path.shown}{many}.\n{_snippet(after, line, arguments.new_str.count(chr(10)) + 1)}", False


async def _insert(context: ToolContext, path: WorkspacePath, arguments: EditArguments) -> tuple[str, bool]:
    if arguments.insert_line is None or arguments.insert_text is None:
        raise _Failed("insert needs insert_line and insert_text")
    before = await _read(context, path)
    lines, at = before.lines, arguments.insert_line
    if at > len(lines):
        raise _Failed(f"insert_line {at} does not fit: {path.shown} has {len(lines)} lines")
    text = native(arguments.insert_text, before.eol).removesuffix(before.eol)
    if at == len(lines) and lines and not lines[-1].endswith("\n"):
        lines.append(before.eol + text)  # the file has no newline at its end, and keeps none
    else:
        lines.insert(at, text + before.eol)
    after = before.with_text("".join(lines))
    await _write(context, path, before.encode(), after.encode())
    return f"Edited {path.shown}.\n{_snippet(after, at + 1, text.count(chr(10)) + 1)}", False


async def _undo(context: ToolContext, path: WorkspacePath, arguments: EditArguments) -> tuple[str, bool]:
    history = context.undo.get(path.real)
    if not history:
        raise _Failed(f"there is no edit of {path.shown} to undo")
    previous, written = history[-1]
    if path.kind != "file" or await context.sandbox.read_file(path.real) != written:
        raise _Failed(f"{path.shown} was changed by something else since its last edit; undo would lose that")
    if previous is None:
        await context.sandbox.exec(f"rm -f -- {shlex.quote(path.real)}", timeout=context.time_left())
    else:
        await context.sandbox.write_file(path.real, previous)
    history.pop()
    return f"Took back the last edit of {path.shown}" + (" (removed it)." if previous is None else "."), False


_COMMANDS = {"view": _view, "create": _create, "str_replace": _replace, "insert": _insert, "undo": _undo}


async def _read(context: ToolContext, path: WorkspacePath) -> TextFile:
    if path.kind == "missing":
        raise _Failed(f"there is no file {path.shown}; to make it use create")
    if path.kind == "directory":
        raise _Failed(f"{path.shown} is a directory; name a file in it")
    return TextFile.decode(await context.sandbox.read_file(path.real, max_bytes=_MAX_FILE_BYTES))


async def _write(context: ToolContext, path: WorkspacePath, before: bytes | None, after: bytes) -> None:
    await context.sandbox.write_file(path.real, after)
    context.undo.setdefault(path.real, []).append((before, after))


def _snippet(file: TextFile, line: int, count: int) -> str:
    """The changed lines and a few around them; `line` is 1-based."""
    lines = [unix(text).rstrip("\n") for text in file.lines]
    first, end = max(0, line - 1 - _SNIPPET_LINES), min(len(lines), line - 1 + min(count, 40) + _SNIPPET_LINES)
    return numbered(lines, first, end)


EDIT = Tool(
    "edit",
    "View or change one file. view shows it with line numbers; create makes a new file; str_replace replaces text that "
    "must match exactly; insert adds lines; undo takes back the last edit of the file.",
    EditArguments,
    _edit,
)
