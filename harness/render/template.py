"""A renderer made of a model's own chat template, for models the `renderers` package has none for.

A chat template renders whole conversations; it cannot extend one whose sampled tokens must stay as they are. The extension
is found by difference: a stand-in conversation ends in an assistant turn that holds a word found nowhere else, the new messages
are appended, and what the template writes after that turn's stop token is exactly what the next prompt adds. It is text from
messages, never from samples, and it starts after a control token, so encoding it alone gives the template's own tokens.

Sampled turns are rendered likewise: what stands between the generation prompt and the stop token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from renderers import (
    Message,
    ParsedResponse,
    RenderedTokens,
    ToolSpec,
    extract_message_tool_names,
    reject_assistant_in_extension,
)

from harness.render.dialects import DIALECTS, Dialect
from harness.render.guard import GuardedTokenizer

_STOPS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "</s>")
_WORD = "standInWord"
_PREFIX: list[Message] = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]


class TemplateUnusable(ValueError):
    """The chat template shows no tools, writes calls in no known way, or cannot be extended; the message says which."""


class TemplateRenderer:
    """`Renderer` over `tokenizer.chat_template`; raises TemplateUnusable when made where the template will not do."""

    name = "template"

    def __init__(self, tokenizer: GuardedTokenizer) -> None:
        self._tokenizer = tokenizer
        vocabulary = tokenizer.get_added_vocab()
        stops = dict.fromkeys(t for t in (tokenizer.eos_token, *_STOPS) if t in vocabulary)
        self._stops = {text: vocabulary[text] for text in stops}
        self._closings = self._stops
        self.dialect = _dialect(tokenizer.chat_template or "")
        if not self._stops:
            raise TemplateUnusable("the tokenizer has no stop token")

    @property
    def is_prefix_stable(self) -> bool:
        return False  # a template may rewrite earlier turns; the bridge never asks it to

    def render(
        self, messages: list[Message], *, tools: list[ToolSpec] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        """Whole conversation; assistant turns the template leaves as they were sampled are marked as sampled."""
        text = self._apply(messages, tools, add_generation_prompt)
        ids: list[int] = []
        indices: list[int] = []
        sampled: list[bool] = []
        edge = 0
        for index, start, end in [*self._turns(messages, tools, text), (-1, len(text), len(text))]:
            for piece, owner in ((text[edge:start], -1), (self._as_sampled(text[start:end]), index)):
                new = self._encode(piece)
                ids += new
                indices += [owner] * len(new)
                sampled += [owner >= 0] * len(new)
            edge = end
        return RenderedTokens(
            token_ids=ids,
            message_indices=indices,
            sampled_mask=sampled,
            message_roles=[message["role"] for message in messages],
            message_tool_names=extract_message_tool_names(messages),
        )

    def render_ids(
        self, messages: list[Message], *, tools: list[ToolSpec] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        return self.render(messages, tools=tools, add_generation_prompt=add_generation_prompt).token_ids

    def parse_response(
        self, token_ids: list[int], *, tools: list[ToolSpec] | None = None, prompt_ids: list[int] | None = None
    ) -> ParsedResponse:
        ids = list(token_ids)
        while ids and ids[-1] in self._stops.values():
            ids.pop()
        text = self._tokenizer.decode(ids, skip_special_tokens=False)
        reasoning, closed, answer = text.rpartition("</think>")
        if not closed and "<think>" in text:
            return ParsedResponse(content="", reasoning_content=text, reasoning_complete=False)
        parsed = self.dialect.parse(answer, cast(Any, tools) or ())
        parsed.reasoning_content = reasoning.strip() or None if closed else None
        return parsed

    def get_stop_token_ids(self) -> list[int]:
        return list(self._stops.values())

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: list[Message],
        *,
        tools: list[ToolSpec] | None = None,
    ) -> RenderedTokens | None:
        if not previous_prompt_ids or not new_messages or reject_assistant_in_extension(new_messages):
            return None
        text = self._apply([*_PREFIX, _stand_in(new_messages), *new_messages], tools, True)
        _, found, rest = text.partition(_WORD)
        if not found or (end := self._turn_end(rest)) is None:
            return None
        closing, addition = end[0], self._encode(rest[end[1] :])
        previous = [*previous_prompt_ids, *previous_completion_ids]
        if not previous_completion_ids or previous_completion_ids[-1] not in self._closings.values():
            previous.append(self._closings[closing])
        ids = [*previous, *addition]
        return RenderedTokens(
            token_ids=ids,
            message_indices=[-1] * len(ids),
            sampled_mask=[False] * len(ids),
            message_roles=[message["role"] for message in new_messages],
            message_tool_names=extract_message_tool_names(new_messages),
        )

    def _turns(self, messages: list[Message], tools: list[ToolSpec] | None, text: str) -> list[tuple[int, int, int]]:
        """(message, start, end) of the text of each assistant turn, its stop token included."""
        turns: list[tuple[int, int, int]] = []
        for index, message in enumerate(messages):
            if message["role"] != "assistant" or not index:
                continue
            prompt = self._apply(messages[:index], tools, True)
            end = self._turn_end(text[len(prompt) :]) if text.startswith(prompt) else None
            if end is not None:
                turns.append((index, len(prompt), len(prompt) + end[1]))
        return turns

    def _turn_end(self, text: str) -> tuple[str, int] | None:
        """The token that closes the turn at the start of `text`, and where it ends."""
        found = [(position, stop) for stop in self._stops if (position := text.find(stop)) >= 0]
        if not found:
            return None
        position, stop = min(found)
        return stop, position + len(stop)

    def _as_sampled(self, turn: str) -> str:
        """A turn as a policy samples it, from the template's text of it."""
        return turn

    def _apply(self, messages: Sequence[Message], tools: list[ToolSpec] | None, add_generation_prompt: bool) -> str:
        return self._tokenizer.apply_chat_template(
            list(messages), tools=tools, add_generation_prompt=add_generation_prompt, tokenize=False
        )

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False) if text else []


def _stand_in(new_messages: Sequence[Message]) -> Message:
    """An assistant turn that may precede `new_messages`: with the call that a tool message answers."""
    first = new_messages[0]
    if first["role"] != "tool":
        return {"role": "assistant", "content": _WORD}
    function = {"name": first.get("name", "tool"), "arguments": {"argument": _WORD}}
    call = {"type": "function", "id": first.get("tool_call_id", "call00000"), "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [cast(Any, call)]}


def _dialect(template: str) -> Dialect:
    for dialect in DIALECTS:
        if all(marker in template for marker in dialect.markers):
            return dialect
    raise TemplateUnusable("its chat template writes tool calls in no way known here")
