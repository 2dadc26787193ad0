"""From what was sampled to what the client gets: prose, tool calls, and why it ended.

A call that the parser cannot read, or that JSON cannot send, is handed on as the text it is, so that the client's own handling
of such turns applies and nothing of what the policy said is lost. Where a stop string was asked for, sampling ends with the
first token that completes one: what an engine sampled after that token is cut off, which leaves exactly the record of an engine
that had stopped there.
"""

from __future__ import annotations

import json
import uuid
from typing import cast

import numpy as np
from renderers import ParsedToolCall, ToolCallParseStatus, ToolSpec

from agentgym.store.records import FinishReason, Int32Array, VersionSpan
from harness.gateway.ask import Answer, Ask, ToolCall
from harness.gateway.messages import spelt
from harness.policies.protocol import Generation
from harness.render import GuardedRenderer

_READABLE = (ToolCallParseStatus.OK, ToolCallParseStatus.UNKNOWN_TOOL)


def read(ask: Ask, prompt: Int32Array, generation: Generation, renderer: GuardedRenderer) -> Answer:
    """The answer to `ask` that `generation` is. Its generation may be shorter: see the module's text."""
    generation, stopped_by = cut_at_stop(generation, ask.stop, renderer)
    sampled = generation.token_ids.tolist()
    stops = renderer.get_stop_token_ids()
    text = renderer.decode(sampled[:-1] if sampled and sampled[-1] in stops else sampled)
    reasoning, calls = None, []
    if ask.messages:
        tools = cast(list[ToolSpec], list(ask.tools))
        parsed = renderer.parse_response(sampled, tools=tools, prompt_ids=prompt.tolist())
        reasoning = parsed.reasoning_content
        if reasoning is not None or not (parsed.tool_calls or parsed.content == text.strip()):
            text = parsed.content  # without the markup around it
        if ask.read_calls and parsed.tool_calls:
            readable = [call for call in parsed.tool_calls if _readable(call)]
            if len(readable) <= 1 or not ask.one_call:
                broken = [call.raw for call in parsed.tool_calls if not _readable(call)]
                text = "\n".join([*filter(None, [parsed.content]), *broken])
                calls = [_call(call) for call in readable]
    if stopped_by is not None:
        text = text[: text.find(stopped_by)] if stopped_by in text else text
    finish = "length" if generation.finish_reason is FinishReason.LENGTH else "tool_calls" if calls else "stop"
    return Answer(prompt, generation, text, reasoning, tuple(calls), finish, stopped_by)


def cut_at_stop(
    generation: Generation, stops: tuple[str, ...], renderer: GuardedRenderer
) -> tuple[Generation, str | None]:
    """The generation up to and including the token that completes the first stop string, and that string: the one that ends
    first, since an engine stops there.
    """
    sampled = generation.token_ids.tolist()
    text = renderer.decode(sampled)
    found = [(text.find(stop) + len(stop), -len(stop), stop) for stop in stops if stop in text]
    if not found:
        return generation, None
    *_, stop = min(found)
    low, high = 1, len(sampled)
    while low < high:  # the shortest prefix whose text holds it
        middle = (low + high) // 2
        low, high = (low, middle) if stop in renderer.decode(sampled[:middle]) else (middle + 1, high)
    if low == len(sampled):
        return generation, stop
    spans = tuple(
        VersionSpan(span.version, span.start, min(span.end, low)) for span in generation.versions if span.start < low
    )
    logprobs = np.asarray(generation.logprobs[:low], np.float32)
    return Generation(np.asarray(sampled[:low], np.int32), logprobs, spans, FinishReason.ABORT), stop


def _readable(call: ParsedToolCall) -> bool:
    return call.status in _READABLE and bool(call.name) and spelt([call.name, call.arguments])


def _call(call: ParsedToolCall) -> ToolCall:
    arguments = json.dumps(call.arguments or {}, ensure_ascii=False)
    return ToolCall(f"call_{uuid.uuid4().hex[:24]}", call.name or "", arguments)
