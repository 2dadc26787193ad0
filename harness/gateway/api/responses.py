"""OpenAI responses, without memory: every request brings its whole conversation as items (`store` is ignored).

message                a message          function_call          a call the policy made
function_call_output   what answered it   reasoning              left out: it stands in the sampled ids anyway
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.gateway.api.chat import sampling
from harness.gateway.api.dialect import Body, Event, Served, check_parameters, pieces
from harness.gateway.ask import Answer, Ask
from harness.gateway.messages import canonical, canonical_tools, number
from harness.gateway.refusal import Refusal, unsupported, unusable

_KNOWN = frozenset(
    {
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "temperature",
        "top_p",
        "seed",
        "max_output_tokens",
        "stream",
        "include",
        "stream_options",
        "reasoning",
    }
)
_FIXED: dict[str, tuple[object, ...]] = {
    "previous_response_id": (),
    "conversation": (),
    "background": (False,),
    "truncation": ("disabled",),
    "text": (
        {"format": {"type": "text"}},
        {},
        {"verbosity": "medium"},
        {"format": {"type": "text"}, "verbosity": "medium"},
    ),
    "top_logprobs": (0,),
    "max_tool_calls": (),
    "prompt": (),
}


class Responses:
    """See `Dialect`."""

    def read(self, body: Body) -> Ask:
        check_parameters(body, _KNOWN, _FIXED)
        choice = body.get("tool_choice")
        if choice not in (None, "auto", "none"):
            raise unsupported("tool_choice", choice, 'a policy chooses for itself; "auto" and "none" can be had')
        most = number(body, "max_output_tokens", 1, 1 << 30, whole=True)
        tools = canonical_tools([_tool(tool, index) for index, tool in enumerate(body.get("tools") or ())])
        return Ask(
            messages=canonical(_conversation(body)),
            tools=tools,
            read_calls=bool(tools) and choice != "none",
            one_call=body.get("parallel_tool_calls") is False,
            max_tokens=None if most is None else int(most),
            **sampling(body),
        )

    def document(self, body: Body, answer: Answer, served: Served) -> dict[str, Any]:
        cut = answer.finish == "length"
        read, written = len(answer.prompt), len(answer.generation.token_ids)
        usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        return self._head(body, answer, served) | {
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": _items(answer),
            "usage": usage | details,
        }

    def events(self, body: Body, answer: Answer, served: Served) -> Iterator[Event]:
        count = iter(range(1 << 30))

        def event(name: str, chars: int = 0, /, **data: Any) -> Event:
            return Event({"type": name, "sequence_number": next(count), **data}, name, chars)

        begun = self._head(body, answer, served) | {"status": "in_progress", "output": [], "usage": None}
        yield event("response.created", response=begun)
        for index, item in enumerate(_items(answer)):
            place = {"output_index": index, "item_id": item["id"]}
            if item["type"] == "message":
                (part,) = item["content"]
                yield event("response.output_item.added", output_index=index, item={**item, "content": []})
                yield event("response.content_part.added", **place, content_index=0, part={**part, "text": ""})
                for text in pieces(part["text"]):
                    yield event(
                        "response.output_text.delta", len(text), **place, content_index=0, delta=text, logprobs=[]
                    )
                yield event("response.output_text.done", **place, content_index=0, text=part["text"], logprobs=[])
                yield event("response.content_part.done", **place, content_index=0, part=part)
            elif item["type"] == "function_call":
                yield event("response.output_item.added", output_index=index, item={**item, "arguments": ""})
                for text in pieces(item["arguments"]):
                    yield event("response.function_call_arguments.delta", len(text), **place, delta=text)
                done = {"arguments": item["arguments"], "name": item["name"]}
                yield event("response.function_call_arguments.done", **place, **done)
            else:
                yield event("response.output_item.added", output_index=index, item=item)
            yield event("response.output_item.done", output_index=index, item=item)
        whole = self.document(body, answer, served)
        yield event(f"response.{whole['status']}", response=whole)

    def refusal(self, refusal: Refusal) -> dict[str, Any]:
        return refusal.openai()

    def _head(self, body: Body, answer: Answer, served: Served) -> dict[str, Any]:
        return {
            "id": f"resp_{answer.id}",
            "object": "response",
            "created_at": answer.created,
            "model": served.model,
            "error": None,
            "incomplete_details": None,
            "instructions": body.get("instructions"),
            "metadata": body.get("metadata") or {},
            "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
            "temperature": body.get("temperature"),
            "top_p": body.get("top_p"),
            "tool_choice": body.get("tool_choice") or "auto",
            "tools": body.get("tools") or [],
        }


def _items(answer: Answer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if answer.reasoning:
        summary = [{"type": "summary_text", "text": answer.reasoning}]
        found.append({"id": f"rs_{answer.id}", "type": "reasoning", "summary": summary})
    if answer.content or not answer.calls:
        part = {"type": "output_text", "text": answer.content, "annotations": [], "logprobs": []}
        message = {"id": f"msg_{answer.id}", "type": "message", "role": "assistant", "status": "completed"}
        found.append(message | {"content": [part]})
    for call in answer.calls:
        kind = {"id": f"fc_{call.id}", "type": "function_call", "status": "completed"}
        found.append(kind | {"call_id": call.id, "name": call.name, "arguments": call.arguments})
    return found


def _tool(tool: object, index: int) -> dict[str, Any]:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        raise unusable(f"tools[{index}] is no function", f"tools[{index}]")
    return {"type": "function", "function": tool}


def _conversation(body: Body) -> list[dict[str, Any]]:
    """The same conversation as chat completions would have it; what one turn said and called is one message."""
    found: list[dict[str, Any]] = []
    if body.get("instructions"):
        found.append({"role": "system", "content": body["instructions"]})
    items = body.get("input")
    items = [{"role": "user", "content": items}] if isinstance(items, str) else items
    if not isinstance(items, list):
        raise unusable("input must be a text or a list of items", "input")
    for index, item in enumerate(items):
        kind = item.get("type", "message") if isinstance(item, dict) else None
        if kind == "message":
            found.append({"role": item.get("role"), "content": item.get("content")})
        elif kind == "function_call":
            if not found or found[-1]["role"] != "assistant":
                found.append({"role": "assistant", "content": ""})
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            found[-1].setdefault("tool_calls", []).append({"id": item.get("call_id"), "function": function})
        elif kind == "function_call_output":
            found.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")})
        elif kind != "reasoning":
            raise unusable(f"input[{index}]: an item of type {kind!r} is not supported", f"input[{index}]")
    return found
