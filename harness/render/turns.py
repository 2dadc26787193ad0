"""The assistant turn that a scripted policy "samples": text and calls to the exact ids a turn of the template has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from renderers import Message, Renderer, ToolSpec

from harness.render.extend import RenderError

_CALL_ID = "call{index:05d}"
"""Nine letters and digits, as Mistral wants."""
_NAMING_ID = "functions.{name}:{index}"
"""For formats that write no name but an id that holds it (Kimi)."""


def assistant_turn(
    renderer: Renderer, content: str = "", calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
) -> list[int]:
    """Token ids a policy would sample to say `content` and make `calls` [(tool, arguments)], stop token included.

    Raises RenderError where the template has no place for as many calls in one turn.
    """
    turn = _render(renderer, content, calls, _CALL_ID)
    read = [call.name for call in renderer.parse_response(turn).tool_calls]
    if len(read) < len(calls):
        raise RenderError(f"the chat template writes {len(read)} of the {len(calls)} calls of one turn")
    if calls and read == [_CALL_ID.format(index=index) for index in range(len(calls))]:
        return _render(renderer, content, calls, _NAMING_ID)
    return turn


def _render(
    renderer: Renderer, content: str, calls: Sequence[tuple[str, Mapping[str, Any]]], call_id: str
) -> list[int]:
    ids = [call_id.format(index=index, name=name) for index, (name, _) in enumerate(calls)]
    message: Message = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"type": "function", "id": ids[i], "function": {"name": name, "arguments": dict(arguments)}}
            for i, (name, arguments) in enumerate(calls)
        ]
    # Some templates write a turn's end with the message after it, and must be shown the tools that are called.
    after: list[Message] = [
        {"role": "tool", "content": ".", "tool_call_id": ids[i], "name": name} for i, (name, _) in enumerate(calls)
    ] or [{"role": "user", "content": "."}]
    tools = [_tool(name) for name in dict.fromkeys([name for name, _ in calls] or ["none"])]
    rendered = renderer.render([{"role": "user", "content": "."}, message, *after], tools=tools)
    mine = [k for k, index in enumerate(rendered.message_indices) if index == 1 and rendered.sampled_mask[k]]
    return [rendered.token_ids[k] for k in mine]


def _tool(name: str) -> ToolSpec:
    parameters = {"type": "object", "properties": {}, "required": []}
    return cast(
        ToolSpec, {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}
    )
