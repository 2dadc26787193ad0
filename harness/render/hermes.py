"""Hermes tool calls in sampled text: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

One record per attempt, in order, with the status that says what is wrong with it; nothing is repaired silently. Two
leniencies are on purpose, because they are unambiguous: raw control characters inside JSON strings (models write
newlines so), and arguments given as a JSON string.
"""

from __future__ import annotations

import json
import re

from renderers import ParsedResponse, ParsedToolCall, ToolCallParseStatus

_BLOCK = re.compile(r"<tool_call>(.*?)(</tool_call>|\Z)", re.DOTALL)


def parse_hermes(text: str) -> ParsedResponse:
    """Split sampled text (without its stop token) into prose and tool-call attempts."""
    calls = [_attempt(match[1], closed=bool(match[2]), raw=match[0]) for match in _BLOCK.finditer(text)]
    return ParsedResponse(content=_BLOCK.sub("", text).strip(), tool_calls=calls)


def _attempt(body: str, *, closed: bool, raw: str) -> ParsedToolCall:
    if not closed:
        return ParsedToolCall(raw=raw, status=ToolCallParseStatus.UNCLOSED_BLOCK)
    try:
        value = json.loads(body, strict=False)
    except (ValueError, RecursionError):
        return ParsedToolCall(raw=raw, status=ToolCallParseStatus.INVALID_JSON)
    if not isinstance(value, dict):
        return ParsedToolCall(raw=raw, status=ToolCallParseStatus.MALFORMED_STRUCTURE)
    return named_call(value.get("name"), value.get("arguments", {}), raw=raw)


def named_call(name: object, arguments: object, *, raw: str) -> ParsedToolCall:
    """A call whose name and arguments have been found; arguments may be an object or JSON text of one."""
    if not isinstance(name, str) or not name:
        return ParsedToolCall(raw=raw, status=ToolCallParseStatus.MISSING_NAME)
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments, strict=False)
        except (ValueError, RecursionError):
            return ParsedToolCall(raw=raw, name=name, status=ToolCallParseStatus.INVALID_JSON)
    if not isinstance(arguments, dict):
        return ParsedToolCall(raw=raw, name=name, status=ToolCallParseStatus.MALFORMED_STRUCTURE)
    return ParsedToolCall(raw=raw, name=name, arguments=arguments)


def format_call(name: str, arguments: object) -> str:
    """The text of one call as the template writes it."""
    body = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {body}}}\n</tool_call>'
