"""ChatML with Hermes tool calls, on the interface of the `renderers` package.

For SmolLM2 and other models whose template knows `<|im_start|>role ... <|im_end|>` and nothing of tools:

    <|im_start|>system\\n{system}\\n\\n{tools and how to call them}<|im_end|>\\n
    <|im_start|>user\\n{task}<|im_end|>\\n
    <|im_start|>assistant\\n{text}\\n<tool_call>\\n{"name": ..., "arguments": {...}}\\n</tool_call><|im_end|>\\n
    <|im_start|>user\\n<tool_response>\\n{observation}\\n</tool_response><|im_end|>\\n

Without tools and tool messages the ids are those of the model's own chat template (tested). Only `<|im_start|>` and
`<|im_end|>` are control tokens; the tool tags are ordinary text the model samples. What the policy sampled is the
assistant's text and its stop token; the opener and the newline after the stop token are template.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from renderers import (
    Message,
    ParsedResponse,
    RenderedTokens,
    ToolSpec,
    attribute_text_segments,
    extract_message_tool_names,
    reject_assistant_in_extension,
)

from harness.render.hermes import format_call, parse_hermes

_TOOLS = """# Tools

Call one tool per turn. The tools, as JSON schemas:
<tools>
{tools}
</tools>

Write a call as one JSON object between tags, and end your turn after it:
<tool_call>
{{"name": "<tool name>", "arguments": {{<arguments>}}}}
</tool_call>"""


@dataclass(slots=True)
class _Stream:
    """Token ids under construction, with the attribution `RenderedTokens` carries."""

    tokenizer: Any
    ids: list[int] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    content: list[bool] = field(default_factory=list)

    def verbatim(self, ids: list[int]) -> None:
        """What was rendered or sampled before: kept as it is, attributed to nobody."""
        self.ids += ids
        self.indices += [-1] * len(ids)
        self.sampled += [False] * len(ids)
        self.content += [False] * len(ids)

    def control(self, token_id: int, index: int, *, sampled: bool = False) -> None:
        self.ids.append(token_id)
        self.indices.append(index)
        self.sampled.append(sampled)
        self.content.append(sampled)

    def text(self, segments: Sequence[tuple[str, bool]], index: int, *, sampled: bool = False) -> None:
        for token_id, is_content in attribute_text_segments(self.tokenizer, [s for s in segments if s[0]]):
            self.ids.append(token_id)
            self.indices.append(index)
            self.sampled.append(sampled)
            self.content.append(is_content)

    def tokens(self, messages: Sequence[Message]) -> RenderedTokens:
        return RenderedTokens(
            token_ids=self.ids,
            message_indices=self.indices,
            sampled_mask=self.sampled,
            is_content=self.content,
            message_roles=[message["role"] for message in messages],
            message_tool_names=extract_message_tool_names(list(messages)),
        )


class ChatMLRenderer:
    """ChatML/Hermes for a tokenizer that has `<|im_start|>` and `<|im_end|>`."""

    name = "chatml-hermes"

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        vocabulary = tokenizer.get_added_vocab()
        self._start: int = vocabulary["<|im_start|>"]
        self._end: int = vocabulary["<|im_end|>"]
        self._stops = [self._end, *(vocabulary[t] for t in ("<|endoftext|>",) if t in vocabulary)]

    @property
    def is_prefix_stable(self) -> bool:
        return True

    def render(
        self, messages: list[Message], *, tools: list[ToolSpec] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        """Render a whole conversation; its first message should be the system message."""
        stream = _Stream(self._tokenizer)
        first_is_system = bool(messages) and messages[0]["role"] == "system"
        if tools and not first_is_system:
            self._message(stream, {"role": "system", "content": ""}, -1, tools)
        for index, message in enumerate(messages):
            self._message(stream, message, index, tools if index == 0 and first_is_system else None)
        if add_generation_prompt:
            self._opener(stream)
        return stream.tokens(messages)

    def render_ids(
        self, messages: list[Message], *, tools: list[ToolSpec] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        return self.render(messages, tools=tools, add_generation_prompt=add_generation_prompt).token_ids

    def parse_response(
        self, token_ids: list[int], *, tools: list[ToolSpec] | None = None, prompt_ids: list[int] | None = None
    ) -> ParsedResponse:
        ids = list(token_ids)
        while ids and ids[-1] in self._stops:
            ids.pop()
        return parse_hermes(self._tokenizer.decode(ids, skip_special_tokens=False))

    def get_stop_token_ids(self) -> list[int]:
        return list(self._stops)

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: list[Message],
        *,
        tools: list[ToolSpec] | None = None,
    ) -> RenderedTokens | None:
        """Previous prompt + exact generation + the new messages + the next opener; None for new assistant messages.

        A generation cut before its stop token gets the template's `<|im_end|>`: a prompt token, never a trainable one.
        """
        if not previous_prompt_ids or reject_assistant_in_extension(new_messages):
            return None
        stream = _Stream(self._tokenizer)
        stream.verbatim([*previous_prompt_ids, *previous_completion_ids])
        if not previous_completion_ids or previous_completion_ids[-1] not in self._stops:
            stream.control(self._end, -1)
        stream.text([("\n", False)], -1)
        for index, message in enumerate(new_messages):
            self._message(stream, message, index, None)
        self._opener(stream)
        return stream.tokens(new_messages)

    def _message(self, stream: _Stream, message: Message, index: int, tools: list[ToolSpec] | None) -> None:
        role, content = message["role"], _text(message)
        stream.control(self._start, index)
        if role == "assistant":
            calls = [
                format_call(call["function"]["name"], call["function"]["arguments"])
                for call in message.get("tool_calls") or ()
                if "function" in call
            ]
            stream.text([("assistant\n", False)], index)
            stream.text([("\n".join(filter(None, [content, *calls])), True)], index, sampled=True)
        elif role == "tool":
            stream.text([("user\n<tool_response>\n", False), (content, True), ("\n</tool_response>", False)], index)
        elif tools:
            block = _TOOLS.format(tools="\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools))
            stream.text(
                [(f"{role}\n", False), (content, True), ("\n\n" if content else "", False), (block, False)], index
            )
        else:
            stream.text([(f"{role}\n", False), (content, True)], index)
        stream.control(self._end, index, sampled=role == "assistant")
        stream.text([("\n", False)], index)

    def _opener(self, stream: _Stream) -> None:
        stream.control(self._start, -1)
        stream.text([("assistant\n", False)], -1)


def _text(message: Message) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content or () if "text" in part)
