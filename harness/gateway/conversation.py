"""From the text a client sends to the token ids the policy sees: what was sampled stays as it was sampled.

A chat API is stateless: every request carries the whole conversation as text. Here each of its assistant turns is looked up
among the replies this episode has sampled, by what it says (prose and calls, not whitespace at its ends or the order of JSON
keys), and where there is one, the exact ids of that reply stand in the prompt. So

    first messages                       rendered by the template
    a turn that was sampled here         its ids, and the messages after it by the renderer's bridge
    a turn that was never sampled here   (an example, a turn the agent has altered) rendered by the template

and an agent that only appends gets prompts that are the previous prompt + generation + new tokens. One that rewrites its
history gets another prompt, laid of the same pieces. Prompts that were answered are remembered by their messages, so a turn
costs its own length. A request that has no answer leaves nothing behind: what a prompt is laid of depends on the answers
before it, and on nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
from renderers import Message as RendererMessage
from renderers import ToolSpec

from agentgym.store.records import Int32Array
from harness.gateway.ask import Answer, Ask, Message
from harness.gateway.refusal import unusable
from harness.render import GuardedRenderer, RenderError, assistant_turn, extend


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """token_ids: int32[P]. replies: the answers that stand in it as they were sampled: the id, and how many of its tokens."""

    token_ids: Int32Array
    replies: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class _Reply:
    """A reply as sampled. id: the answer's. prefix: mark of what it answered. depth: how many assistant turns that had."""

    id: str
    token_ids: list[int]
    call_ids: frozenset[str]
    prefix: bytes
    depth: int


class Conversation:
    """All conversations of one episode; they may branch."""

    def __init__(self, renderer: GuardedRenderer) -> None:
        self._renderer = renderer
        self._replies: dict[str, list[_Reply]] = {}
        self._laid: dict[bytes, Prompt] = {}
        self._texts: list[tuple[str, Prompt]] = []

    def render(self, ask: Ask) -> Prompt:
        """The prompt of a request, ready to be answered. Raises Refusal where the template will not have it."""
        if ask.token_ids is not None:
            return Prompt(np.asarray(ask.token_ids, np.int32))
        if ask.text is not None:
            return self._raw(ask.text)
        return self._chat(ask.messages, ask.tools)

    def take(self, ask: Ask, prompt: Prompt, answer: Answer) -> None:
        """A request was answered: what goes on from it is laid on its prompt and the ids of its answer."""
        sampled = answer.generation.token_ids.tolist()
        if ask.messages:
            prefix, depth = mark(ask), sum(message["role"] == "assistant" for message in ask.messages)
            self._laid.setdefault(prefix, prompt)
            reply = _Reply(answer.id, sampled, frozenset(call.id for call in answer.calls), prefix, depth)
            self._replies.setdefault(_meaning(answer.message), []).append(reply)
        elif ask.text is not None:
            self._texts.append((ask.text + self._renderer.decode(sampled), _longer(prompt, sampled, answer.id)))
            if sampled and sampled[-1] in self._renderer.get_stop_token_ids():  # the client may leave its text out
                said = sampled[:-1]
                self._texts.append((ask.text + self._renderer.decode(said), _longer(prompt, said, answer.id)))

    def _chat(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Prompt:
        if not messages or messages[-1]["role"] == "assistant":
            raise unusable("the last message must not be the assistant's: it is the one to be written", "messages")
        marks = _marks(messages, tools)
        turns = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
        edges = [*turns, len(messages)]
        known = max((k for k, edge in enumerate(edges) if marks[edge] in self._laid), default=None)
        specs = [dict(tool) for tool in tools]
        try:
            if known is None:
                known, ids, replies = 0, self._first(messages[: edges[0]], specs), set[tuple[str, int]]()
            else:
                laid = self._laid[marks[edges[known]]]
                ids, replies = laid.token_ids.tolist(), set(laid.replies)
            for depth, (turn, end) in enumerate(pairwise(edges[known:]), known):
                reply = self._sampled(messages[turn], marks[turn], depth)
                said = self._written(messages[turn]) if reply is None else reply.token_ids
                ids, _ = extend(self._renderer, ids, said, messages[turn + 1 : end], specs)
                replies |= set() if reply is None else {(reply.id, len(reply.token_ids))}
        except RenderError as error:
            raise unusable(str(error), "messages") from error
        except Exception as error:  # a chat template raises what it likes: the client's conversation is what it refuses
            raise unusable(f"the model's chat template refuses this conversation: {error}", "messages") from error
        return Prompt(np.asarray(ids, np.int32), frozenset(replies))

    def _raw(self, text: str) -> Prompt:
        """The longest text sampled so far that this one starts with, and the rest encoded."""
        start, prompt = max(
            ((seen, prompt) for seen, prompt in self._texts if text.startswith(seen)),
            key=lambda one: len(one[0]),
            default=("", Prompt(np.zeros(0, np.int32))),
        )
        rest = text[len(start) :]
        return _longer(prompt, self._renderer.tokenizer.encode(rest, add_special_tokens=False) if rest else [])

    def _first(self, messages: Sequence[Message], specs: list[dict[str, Any]]) -> list[int]:
        return self._renderer.render_ids(
            cast(list[RendererMessage], list(messages)),
            tools=cast(list[ToolSpec], specs) or None,
            add_generation_prompt=True,
        )

    def _sampled(self, message: Message, prefix: bytes, depth: int) -> _Reply | None:
        """The reply that an assistant turn is; None where the policy never said it."""
        ids = {call["id"] for call in message.get("tool_calls", ())}
        # The same words may have been sampled twice. Ids of calls say which is meant, then what it answered, then the place,
        # then the time.
        return max(
            reversed(self._replies.get(_meaning(message), [])),
            key=lambda reply: (bool(ids & reply.call_ids), reply.prefix == prefix, reply.depth == depth),
            default=None,
        )

    def _written(self, message: Message) -> list[int]:
        """The ids of an assistant turn that was never sampled: the template's own."""
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", ())]
        return assistant_turn(self._renderer, message["content"], calls)


def _longer(prompt: Prompt, token_ids: list[int], reply: str | None = None) -> Prompt:
    """With more tokens, which are those of an answer."""
    ids = np.concatenate([prompt.token_ids, np.asarray(token_ids, np.int32)])
    return Prompt(ids, prompt.replies | ({(reply, len(token_ids))} if reply else set()))


def _meaning(message: Message) -> str:
    """What an assistant turn says: equal for a reply as it was given and as a client sends it back."""
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", ())]
    return json.dumps([message["content"].strip(), calls], sort_keys=True)


def mark(ask: Ask) -> bytes:
    """Equal for requests that ask the same of the same conversation."""
    return _marks(ask.messages, ask.tools)[-1]


def _marks(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """A digest for each prefix of the conversation: marks[k] is of the tools and the first k messages."""
    marks = [hashlib.sha256(json.dumps(list(tools), sort_keys=True).encode()).digest()]
    for message in messages:
        marks.append(hashlib.sha256(marks[-1] + json.dumps(message, sort_keys=True).encode()).digest())
    return marks
