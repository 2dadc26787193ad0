"""Anthropic's messages: content in blocks, tools and their results among them, a stream of named events.

text, thinking    text; thinking is left out of what is sent on, since what was thought stands in the sampled ids anyway
tool_use          a call              tool_result    a message that answers one
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.gateway.api.chat import sampling
from harness.gateway.api.dialect import Body, Event, Served, check_parameters, pieces
from harness.gateway.ask import Answer, Ask
from harness.gateway.messages import canonical, canonical_tools, number, strings, text_of
from harness.gateway.refusal import Refusal, unsupported, unusable

_KNOWN = frozenset(
    {
        "messages",
        "system",
        "tools",
        "tool_choice",
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "stream",
        "betas",
    }
)
_FIXED: dict[str, tuple[object, ...]] = {"thinking": ({"type": "disabled"},), "container": (), "mcp_servers": ([],)}
_STOP = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


class AnthropicMessages:
    """See `Dialect`."""

    def read(self, body: Body) -> Ask:
        check_parameters(body, _KNOWN, _FIXED)
        most = number(body, "max_tokens", 1, 1 << 30, whole=True)
        if most is None:
            raise unusable("max_tokens must be given", "max_tokens")
        choice = body.get("tool_choice") or {"type": "auto"}
        kind = choice.get("type") if isinstance(choice, dict) else choice
        if kind not in ("auto", "none"):
            raise unsupported("tool_choice", choice, '{"type": "auto"} and {"type": "none"} can be had')
        tools = canonical_tools([_tool(tool, index) for index, tool in enumerate(body.get("tools") or ())])
        return Ask(
            messages=canonical(_conversation(body)),
            tools=tools,
            read_calls=bool(tools) and kind == "auto",
            one_call=isinstance(choice, dict) and choice.get("disable_parallel_tool_use") is True,
            max_tokens=int(most),
            stop=strings(body, "stop_sequences"),
            **sampling(body),
        )

    def document(self, body: Body, answer: Answer, served: Served) -> dict[str, Any]:
        return self._head(answer, served) | {
            "content": _blocks(answer),
            "stop_reason": "stop_sequence" if answer.stopped_by else _STOP[answer.finish],
            "stop_sequence": answer.stopped_by,
            "usage": _usage(answer, len(answer.generation.token_ids)),
        }

    def events(self, body: Body, answer: Answer, served: Served) -> Iterator[Event]:
        def event(name: str, chars: int = 0, /, **data: Any) -> Event:
            return Event({"type": name, **data}, name, chars)

        start = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": _usage(answer, 0)}
        yield event("message_start", message=self._head(answer, served) | start)
        for index, block in enumerate(_blocks(answer)):
            kind = block["type"]
            if kind == "tool_use":
                text, opened = json.dumps(block["input"], ensure_ascii=False), {**block, "input": {}}
                delta, field = "input_json_delta", "partial_json"
            else:
                text, opened = block[kind], {**block, kind: ""}
                delta, field = f"{kind}_delta", kind
            yield event("content_block_start", index=index, content_block=opened)
            for part in pieces(text):
                yield event("content_block_delta", len(part), index=index, delta={"type": delta, field: part})
            yield event("content_block_stop", index=index)
        whole = self.document(body, answer, served)
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": whole["stop_sequence"]}
        yield event("message_delta", delta=ended, usage=whole["usage"])
        yield event("message_stop")

    def refusal(self, refusal: Refusal) -> dict[str, Any]:
        return refusal.anthropic()

    def _head(self, answer: Answer, served: Served) -> dict[str, Any]:
        return {"id": f"msg_{answer.id}", "type": "message", "role": "assistant", "model": served.model}


def _blocks(answer: Answer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if answer.reasoning:
        found.append({"type": "thinking", "thinking": answer.reasoning, "signature": ""})
    if answer.content or not answer.calls:
        found.append({"type": "text", "text": answer.content})
    return [*found, *({"type": "tool_use", "id": c.id, "name": c.name, "input": dict(c.parsed)} for c in answer.calls)]


def _usage(answer: Answer, written: int) -> dict[str, int]:
    return {"input_tokens": len(answer.prompt), "output_tokens": written}


def _tool(tool: object, index: int) -> dict[str, Any]:
    if not isinstance(tool, dict) or tool.get("type", "custom") != "custom":
        raise unusable(f"tools[{index}] is no tool of the client's own", f"tools[{index}]")
    function = {
        "name": tool.get("name"),
        "description": tool.get("description"),
        "parameters": tool.get("input_schema"),
    }
    return {"type": "function", "function": function}


def _conversation(body: Body) -> list[dict[str, Any]]:
    """The same conversation as OpenAI's API would have it."""
    found: list[dict[str, Any]] = []
    if body.get("system"):
        found.append({"role": "system", "content": text_of(body["system"], "system")})
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise unusable("messages must be a list", "messages")
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("user", "assistant"):
            raise unusable(f"{where}: the role must be user or assistant (got {role!r})", where)
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
            raise unusable(f"{where}: content is neither text nor a list of blocks", where)
        found += _assistant(blocks) if role == "assistant" else _user(blocks, where)
    return found


def _assistant(blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    text = [block for block in blocks if block.get("type") not in ("tool_use", "thinking", "redacted_thinking")]
    calls = [
        {"id": block.get("id"), "function": {"name": block.get("name"), "arguments": block.get("input") or {}}}
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    return [{"role": "assistant", "content": text, "tool_calls": calls}]


def _user(blocks: Sequence[Mapping[str, Any]], where: str) -> list[dict[str, Any]]:
    results = [
        {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": text_of(block.get("content"), where)}
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    rest = [block for block in blocks if block.get("type") != "tool_result"]
    return [*results, *([{"role": "user", "content": rest}] if rest or not results else [])]
