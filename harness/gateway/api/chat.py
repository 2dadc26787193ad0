"""OpenAI chat completions: messages and tools in, one assistant message out, whole or as a stream of deltas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.gateway.api.dialect import Body, Event, Served, check_parameters, pieces
from harness.gateway.ask import Answer, Ask
from harness.gateway.messages import canonical, canonical_tools, number, strings
from harness.gateway.refusal import Refusal, unsupported

_KNOWN = frozenset(
    {
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "stream",
        "stream_options",
        "logprobs",
        "return_token_ids",
    }
)
_FIXED: dict[str, tuple[object, ...]] = {
    "n": (1,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "functions": ([],),
    "function_call": ("none",),
}
_MANY = 1 << 30


class Chat:
    """See `Dialect`."""

    def read(self, body: Body) -> Ask:
        check_parameters(body, _KNOWN, _FIXED)
        tools, choice = canonical_tools(body.get("tools")), body.get("tool_choice")
        if choice not in (None, "auto", "none"):
            raise unsupported("tool_choice", choice, 'a policy chooses for itself; "auto" and "none" can be had')
        return Ask(
            messages=canonical(body.get("messages")),
            tools=tools,
            read_calls=bool(tools) and choice != "none",
            one_call=body.get("parallel_tool_calls") is False,
            max_tokens=_max_tokens(body),
            stop=strings(body, "stop"),
            **sampling(body),
        )

    def document(self, body: Body, answer: Answer, served: Served) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.content, "refusal": None}
        if answer.reasoning:
            message["reasoning_content"] = answer.reasoning
        if answer.calls:
            message["content"] = answer.content or None
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in answer.calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": answer.finish, "logprobs": None}
        if body.get("logprobs"):
            choice["logprobs"] = {"content": token_logprobs(answer, served), "refusal": None}
        document = self._head(answer, served, "chat.completion") | {"choices": [choice], "usage": usage(answer)}
        if body.get("return_token_ids"):
            document["prompt_token_ids"] = answer.prompt.tolist()
            choice["token_ids"] = answer.generation.token_ids.tolist()
        return document

    def events(self, body: Body, answer: Answer, served: Served) -> Iterator[Event]:
        head = self._head(answer, served, "chat.completion.chunk")
        with_usage = (body.get("stream_options") or {}).get("include_usage")

        def chunk(delta: dict[str, Any], finish: str | None = None, chars: int = 0, logprobs: Any = None) -> Event:
            choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": logprobs}
            return Event(head | {"choices": [choice]} | ({"usage": None} if with_usage else {}), chars=chars)

        yield chunk({"role": "assistant", "content": ""})
        if answer.reasoning:
            yield from (chunk({"reasoning_content": part}, chars=len(part)) for part in pieces(answer.reasoning))
        yield from (chunk({"content": part}, chars=len(part)) for part in pieces(answer.content))
        for index, call in enumerate(answer.calls):
            function = {"name": call.name, "arguments": ""}
            yield chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
            for part in pieces(call.arguments):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]}, chars=len(part))
        logprobs = {"content": token_logprobs(answer, served), "refusal": None} if body.get("logprobs") else None
        yield chunk({}, answer.finish, logprobs=logprobs)
        if with_usage:
            yield Event(head | {"choices": [], "usage": usage(answer)})
        yield Event("[DONE]")

    def refusal(self, refusal: Refusal) -> dict[str, Any]:
        return refusal.openai()

    def _head(self, answer: Answer, served: Served, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{answer.id}", "object": kind, "created": answer.created, "model": served.model}


def sampling(body: Body) -> dict[str, Any]:
    """The sampling parameters that OpenAI's APIs share, for `Ask`."""
    return {
        "temperature": number(body, "temperature", 0, 2),
        "top_p": number(body, "top_p", 1e-6, 1),
        "top_k": number(body, "top_k", -1, _MANY, whole=True),
        "seed": number(body, "seed", -(1 << 63), (1 << 63) - 1, whole=True),
    }


def usage(answer: Answer) -> dict[str, Any]:
    read, written = len(answer.prompt), len(answer.generation.token_ids)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def token_logprobs(answer: Answer, served: Served) -> list[dict[str, Any]]:
    """One entry per sampled token, the stop token included."""
    tokens = [served.renderer.decode([token]) for token in answer.generation.token_ids.tolist()]
    return [
        {"token": token, "logprob": logprob, "bytes": list(token.encode()), "top_logprobs": []}
        for token, logprob in zip(tokens, answer.generation.logprobs.tolist(), strict=True)
    ]


def _max_tokens(body: Body) -> int | None:
    asked = [number(body, name, 1, _MANY, whole=True) for name in ("max_completion_tokens", "max_tokens")]
    return next((int(value) for value in asked if value is not None), None)
