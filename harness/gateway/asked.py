"""What a client asked, kept beside the calls that answered it: for people, and for rendering it again (`harness.replay`).

One document per call, in the order of the calls. `number` is the call's place among the answers, by time, and `after` how many
of them had been given when its prompt was laid: with these, and without a clock, each prompt can be laid again of what there
was then. `shared` messages are those that the call before was asked too, `messages` the others. `tools` stand where they are
not those of the call before. `call_ids` are the ids under which the client was given the answer's calls. A raw prompt is
its `text`; one of token ids is in the call itself, and leaves nothing to render.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, NonNegativeInt, TypeAdapter

from harness.gateway.ask import Answer, Ask
from harness.gateway.messages import canonical, canonical_tools
from harness.gateway.refusal import Refusal

_READING = ("read_calls", "one_call", "stop", "text")
"""What decides how the answer was read, beside messages and tools."""


class _Kept(BaseModel, strict=True):
    """A document, which an import may hold in any form."""

    shared: NonNegativeInt
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    read_calls: bool = False
    one_call: bool = False
    stop: Sequence[str] = ()
    text: str | None = None
    call_ids: list[str] = []


def keep(asked: Sequence[tuple[Ask, Answer]], order: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """JSON-ready documents; see above. order: number and after of each."""
    before, found = Ask(), []
    for (ask, answer), (number, after) in zip(asked, order, strict=True):
        pairs = zip(before.messages, ask.messages, strict=False)
        shared = next((k for k, (old, new) in enumerate(pairs) if not same(old, new)), None)
        shared = min(len(before.messages), len(ask.messages)) if shared is None else shared
        one: dict[str, Any] = {"number": number, "after": after, "shared": shared}
        one["messages"] = list(ask.messages[shared:])
        if not same(ask.tools, before.tools):
            one["tools"] = list(ask.tools)
        one |= {name: getattr(ask, name) for name in _READING if getattr(ask, name)}
        if answer.calls:
            one["call_ids"] = [call.id for call in answer.calls]
        found.append(one)
        before = ask
    return found


def same(old: Any, new: Any) -> bool:
    """Whether two JSON values are written the same: 1 is not true, and the order of keys is what a template shows."""
    return json.dumps(old) == json.dumps(new)


def kept(documents: object) -> Iterator[tuple[Ask, list[str]]]:
    """The requests of `keep`, each with the ids of its answer's calls. Raises ValueError for what is none of them."""
    before = Ask()
    for one in TypeAdapter(list[_Kept]).validate_python(documents):
        try:
            messages = canonical(one.messages) if one.messages else ()
            tools = before.tools if one.tools is None else canonical_tools(one.tools)
        except Refusal as refusal:
            raise ValueError(str(refusal)) from refusal
        if one.shared > len(before.messages):
            raise ValueError(f"{one.shared} of {len(before.messages)} messages are shared")
        before = Ask(
            messages=(*before.messages[: one.shared], *messages),
            tools=tools,
            read_calls=one.read_calls,
            one_call=one.one_call,
            text=one.text,
            stop=tuple(one.stop),
        )
        yield before, list(one.call_ids)


def order(documents: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Number and after of each document. Raises ValueError where these are no order."""
    found: list[tuple[Any, Any]] = [(one.get("number"), one.get("after")) for one in documents]
    if not all(type(number) is int and type(after) is int and 0 <= after <= number for number, after in found):
        raise ValueError("a request has no place among the others")
    if sorted(number for number, _ in found) != list(range(len(found))):
        raise ValueError("two requests have the same place")
    return found
