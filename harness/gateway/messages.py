"""Messages as the OpenAI API has them, made canonical: one form per meaning, and only what a chat template can render.

Content is text (parts are joined), arguments of calls are objects, a tool message carries the name of the tool it answers
(some templates want it), `developer` is `system`, and fields that say nothing to the policy are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.store.kinds import nested_deeper
from harness.gateway.ask import Message
from harness.gateway.refusal import unusable
from harness.render.guarded import DEEPEST

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def canonical(messages: object) -> tuple[Message, ...]:
    """Raises Refusal that names the message at fault."""
    if not isinstance(messages, list) or not messages:
        raise unusable("messages must be a list of at least one message", "messages")
    names: dict[str, str] = {}
    found: list[Message] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict):
            raise unusable(f"{where} is not an object", where)
        role = _ROLES.get(str(message.get("role")))
        if role is None:
            raise unusable(f"{where}: no such role {message.get('role')!r}; known are {', '.join(_ROLES)}", where)
        one: Message = {"role": role, "content": text_of(message.get("content"), where)}
        if role == "assistant" and message.get("function_call"):
            raise unusable(f"{where}: function_call is not supported; use tool_calls", where)
        if role == "assistant" and message.get("tool_calls"):
            one["tool_calls"] = calls = _calls(message["tool_calls"], where)
            names |= {call["id"]: call["function"]["name"] for call in calls}
        if role == "tool":
            one["tool_call_id"] = call_id = str(message.get("tool_call_id") or "")
            one["name"] = str(message.get("name") or names.get(call_id) or "unknown")
        found.append(one)
    return tuple(found)


def text_of(content: object, where: str) -> str:
    """The text of a message's content: a string, nothing, or a list of text parts."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise unusable(f"{where}: content is neither text nor a list of parts", where)
    texts: list[str] = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        text = part.get("refusal" if kind == "refusal" else "text", "") if isinstance(part, dict) else None
        if kind not in ("text", "input_text", "output_text", "refusal") or not isinstance(text, str):
            raise unusable(f"{where}: a content part of type {kind!r} is not supported: the policy reads text", where)
        texts.append(text)
    return "".join(texts)


def canonical_tools(tools: Sequence[object] | None) -> tuple[dict[str, Any], ...]:
    """Tool schemas in OpenAI's envelope, without fields that are not for the policy."""
    found: list[dict[str, Any]] = []
    for index, tool in enumerate(tools or ()):
        function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise unusable(f"tools[{index}] is not a function with a name", f"tools[{index}]")
        kept = {key: function[key] for key in ("name", "description", "parameters") if function.get(key) is not None}
        kept.setdefault("description", "")
        kept.setdefault("parameters", {"type": "object", "properties": {}})
        found.append({"type": "function", "function": kept})
    return tuple(found)


def _calls(calls: object, where: str) -> list[Message]:
    if not isinstance(calls, list):
        raise unusable(f"{where}: tool_calls must be a list", where)
    found: list[Message] = []
    for call in calls:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise unusable(f"{where}: a tool call has no function with a name", where)
        arguments = function.get("arguments") or "{}"
        try:
            arguments = json.loads(arguments, strict=False) if isinstance(arguments, str) else arguments
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict) or nested_deeper(arguments, DEEPEST) or not spelt(arguments):
            raise unusable(
                f"{where}: the arguments of {function['name']!r} are no JSON object of finite numbers, at most {DEEPEST} deep",
                where,
            )
        call_id = str(call.get("id") or "") if isinstance(call, Mapping) else ""
        found.append(
            {"type": "function", "id": call_id, "function": {"name": function["name"], "arguments": arguments}}
        )
    return found


def spelt(value: object) -> bool:
    """Whether a value can be sent as JSON: Python's reader takes NaN and half of a surrogate pair, no token or UTF-8 has them."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError):
        return False
    return True


def number(body: Mapping[str, Any], name: str, low: float, high: float, *, whole: bool = False) -> float | int | None:
    """A number of the request within [low, high], None where it is not given; raises Refusal."""
    value = body.get(name)
    if value is None:
        return None
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        kind = "a whole number" if whole else "a number"
        raise unusable(f"{name} must be {kind} from {low:g} to {high:g} (got {value!r})", name)
    return value


def strings(body: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """One string or up to 16 of them."""
    value = body.get(name)
    found: Sequence[object] = [value] if isinstance(value, str) else value or []
    if not isinstance(found, list) or len(found) > 16 or not all(isinstance(one, str) and one for one in found):
        raise unusable(f"{name} must be a string or a list of up to 16 of them", name)
    return tuple(str(one) for one in found)
