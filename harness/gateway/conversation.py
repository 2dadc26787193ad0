"""From the text a client sends to the token ids the policy sees: what was sampled stays as it was sampled.

A chat API is stateless: every request carries the whole conversation as text. Here each of its assistant turns is looked up
among the replies this episode has sampled, by what it says (prose and calls, not whitespace at its ends or the order of JSON
keys), and where there is one, the exact ids of that reply stand in the prompt. So

    first messages                       rendered by the template
    a turn that was sampled here         its ids, and the messages after it by the renderer's bridge
    a turn that was never sampled here   (an example, a turn the agent has altered) rendered by the template

and an agent that only appends gets prompts that are the previous prompt + generation + new tokens. One that rewrites its
history gets another prompt, laid of the same pieces. Prompts are remembered by their messages, so a turn costs its own length.
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


@dataclass(frozen=True, slots=True)
class _Reply:
    """A reply as sampled. depth: how many assistant turns stood before it."""

    token_ids: list[int]
    call_ids: frozenset[str]
    depth: int


class Conversation:
    """All conversations of one episode; they may branch."""

    def __init__(self, renderer: GuardedRenderer) -> None:
        self._renderer = renderer
        self._replies: dict[str, list[_Reply]] = {}
        self._laid: dict[bytes, Int32Array] = {}
        self._texts: list[tuple[str, list[int]]] = []

    def render(self, ask: Ask) -> list[int]:
        """The prompt of a request. Raises Refusal where the template will not have it."""
        if ask.token_ids is not None:
            return list(ask.token_ids)
        if ask.text is not None:
            return self.raw_prompt(ask.text)
        return self.prompt(ask.messages, ask.tools)

    def take(self, ask: Ask, answer: Answer) -> None:
        """Its answer was sampled."""
        if ask.messages:
            self.remember(answer, sum(message["role"] == "assistant" for message in ask.messages))
        elif ask.text is not None:
            self.remember_text(ask.text, answer)

    def lay(self, ask: Ask, prompt: Int32Array) -> None:
        """What follows on this request goes on from `prompt`, whatever its messages are rendered to."""
        if ask.messages:
            self._laid[_marks(ask.messages, ask.tools)[-1]] = prompt

    def prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Token ids of a conversation, ready to be answered. Raises Refusal where the template will not have it."""
        if not messages or messages[-1]["role"] == "assistant":
            raise unusable("the last message must not be the assistant's: it is the one to be written", "messages")
        marks = _marks(messages, tools)
        turns = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
        edges = [*turns, len(messages)]
        known = max((k for k, edge in enumerate(edges) if marks[edge] in self._laid), default=None)
        specs = [dict(tool) for tool in tools]
        try:
            if known is None:
                known, ids = 0, self._first(messages[: edges[0]], specs)
                self._laid[marks[edges[0]]] = np.asarray(ids, np.int32)
            ids = self._laid[marks[edges[known]]].tolist()
            for depth, (turn, end) in enumerate(pairwise(edges[known:]), known):
                ids, _ = extend(self._renderer, ids, self._turn(messages[turn], depth), messages[turn + 1 : end], specs)
                self._laid[marks[end]] = np.asarray(ids, np.int32)
        except RenderError as error:
            raise unusable(str(error), "messages") from error
        except Exception as error:  # a chat template raises what it likes: the client's conversation is what it refuses
            raise unusable(f"the model's chat template refuses this conversation: {error}", "messages") from error
        return ids

    def raw_prompt(self, text: str) -> list[int]:
        """Token ids of a raw prompt: the longest text sampled so far that it starts with, and the rest encoded."""
        start, ids = max(
            ((seen, ids) for seen, ids in self._texts if text.startswith(seen)),
            key=lambda one: len(one[0]),
            default=("", []),
        )
        rest = text[len(start) :]
        return [*ids, *(self._renderer.tokenizer.encode(rest, add_special_tokens=False) if rest else [])]

    def remember(self, answer: Answer, depth: int) -> None:
        """A reply to a chat request was sampled. depth: assistant turns before it."""
        reply = _Reply(answer.generation.token_ids.tolist(), frozenset(call.id for call in answer.calls), depth)
        self._replies.setdefault(_meaning(answer.message), []).append(reply)

    def remember_text(self, prompt: str, answer: Answer) -> None:
        """A reply to a raw prompt was sampled; the client may go on with or without the stop token's text."""
        before, sampled = answer.prompt.tolist(), answer.generation.token_ids.tolist()
        self._texts.append((prompt + self._renderer.decode(sampled), [*before, *sampled]))
        if sampled and sampled[-1] in self._renderer.get_stop_token_ids():
            self._texts.append((prompt + self._renderer.decode(sampled[:-1]), [*before, *sampled[:-1]]))

    def _first(self, messages: Sequence[Message], specs: list[dict[str, Any]]) -> list[int]:
        return self._renderer.render_ids(
            cast(list[RendererMessage], list(messages)),
            tools=cast(list[ToolSpec], specs) or None,
            add_generation_prompt=True,
        )

    def _turn(self, message: Message, depth: int) -> list[int]:
        """The ids of an assistant turn: those sampled, the template's own where the policy never said it."""
        found = self._replies.get(_meaning(message), [])
        if not found:
            calls = [
                (call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", ())
            ]
            return assistant_turn(self._renderer, message["content"], calls)
        ids = {call["id"] for call in message.get("tool_calls", ())}
        # The same words may have been sampled twice; ids of calls say which is meant, then the place, then the time.
        best = max(enumerate(found), key=lambda one: (bool(ids & one[1].call_ids), one[1].depth == depth, one[0]))
        return best[1].token_ids


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
