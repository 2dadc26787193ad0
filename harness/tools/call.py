"""From a parsed generation to one tool call, or to what is wrong with it in words the policy can learn from.

A turn makes exactly one call. Anything else (no call, several, broken JSON, an unknown tool) executes nothing and is
counted as an invalid action; it never raises.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from renderers import ParsedResponse, ParsedToolCall, ToolCallParseStatus

from harness.tools.base import Tool


@dataclass(frozen=True, slots=True)
class Call:
    """One well-formed call of a tool the profile has; its arguments are not validated yet."""

    tool: Tool
    arguments: Mapping[str, Any]
    call_id: str


@dataclass(frozen=True, slots=True)
class MalformedCall:
    """Why nothing was executed. tool: the name that was called, "" where there is none."""

    problem: str
    tool: str = ""
    call_id: str = ""
    attempted: bool = False


_FAULTS = {
    ToolCallParseStatus.INVALID_JSON: "it is not valid JSON (check quotes, commas, and that newlines are written \\n)",
    ToolCallParseStatus.UNCLOSED_BLOCK: "the call is not closed",
    ToolCallParseStatus.MISSING_NAME: 'it has no tool name ("name")',
    ToolCallParseStatus.MALFORMED_STRUCTURE: 'it must be one object with "name" and "arguments"',
    ToolCallParseStatus.UNKNOWN_TOOL: "there is no such tool",
}


def read_call(
    response: ParsedResponse, tools: Mapping[str, Tool], *, turn: int, cut: bool = False
) -> Call | MalformedCall:
    """The one call of a turn. cut: the token limit ended the generation before the policy did."""
    call_id = f"call{turn:05d}"
    names = ", ".join(tools)
    if not response.tool_calls:
        problem = f"Error: no tool call found. Make exactly one call per turn, of one of: {names}."
        return MalformedCall(_cut(problem, cut))
    if len(response.tool_calls) > 1:
        problem = (
            f"Error: {len(response.tool_calls)} tool calls in one turn; none was executed. Make one call per turn."
        )
        return MalformedCall(problem, call_id=call_id, attempted=True)
    attempt = response.tool_calls[0]
    call_id = attempt.id or call_id  # where the format carries ids, results name the call's own
    name = attempt.name or ""
    if attempt.status not in (ToolCallParseStatus.OK, ToolCallParseStatus.UNKNOWN_TOOL):
        problem = f"Error: the tool call could not be read: {_FAULTS[attempt.status]}. Nothing was executed."
        return MalformedCall(_cut(problem, cut), name, call_id, attempted=True)
    if name not in tools:
        near = difflib.get_close_matches(name, tools, n=1)
        did_you_mean = f' Did you mean "{near[0]}"?' if near else ""
        problem = f'Error: there is no tool "{name}".{did_you_mean} The tools are: {names}.'
        return MalformedCall(problem, name, call_id, attempted=True)
    return _checked(tools[name], attempt, call_id)


def _checked(tool: Tool, attempt: ParsedToolCall, call_id: str) -> Call | MalformedCall:
    arguments = attempt.arguments if attempt.arguments is not None else {}
    if not isinstance(arguments, dict):
        problem = f'Error: the arguments of "{tool.name}" must be a JSON object. Nothing was executed.'
        return MalformedCall(problem, tool.name, call_id, attempted=True)
    if not _is_text(arguments):
        problem = "Error: the arguments hold a NUL character or half of a surrogate pair. Nothing was executed."
        return MalformedCall(problem, tool.name, call_id, attempted=True)
    return Call(tool, arguments, call_id)


def _is_text(value: Any) -> bool:
    """False where a string cannot be written to a file, a shell or a database (JSON escapes can spell such strings)."""
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)
    if isinstance(value, dict):
        return all(_is_text(key) and _is_text(item) for key, item in value.items())
    return all(map(_is_text, value)) if isinstance(value, list) else True


def _cut(problem: str, cut: bool) -> str:
    return f"{problem} Your turn reached the token limit and was cut: be shorter." if cut else problem
