"""Any renderer, with the promises the data contract needs made certain rather than assumed.

1. No message can bring in a control token: contents and arguments are guarded before they are rendered (`guard.py`).
2. A bridged prompt starts with exactly the previous prompt and the exact generation. Where the wrapped renderer returns
   something else, the bridge returns None and the caller records a context event instead of a silent rewrite.
3. Whatever was sampled is read: where a parser gives up (JSON nested deeper than Python goes), it is one broken call; and so is
   a call whose arguments are no object, or nested deeper than all that has to walk them later can go.
"""

from __future__ import annotations

from typing import Any, cast

from renderers import (
    Message,
    ParsedResponse,
    ParsedToolCall,
    RenderedTokens,
    Renderer,
    ToolCallParseStatus,
    ToolSpec,
)

from agentgym.store.kinds import nested_deeper
from harness.render.guard import GuardedTokenizer, guard

_GOOD = (ToolCallParseStatus.OK, ToolCallParseStatus.UNKNOWN_TOOL)
DEEPEST = 64
"""Levels of lists and objects in the arguments of a call."""


class GuardedRenderer:
    """`Renderer` around another one. name: which renderer this is; tokenizer: the one it renders with."""

    def __init__(self, wrapped: Renderer, tokenizer: GuardedTokenizer, name: str) -> None:
        self.wrapped = wrapped
        self.tokenizer = tokenizer
        self.name = name

    @property
    def is_prefix_stable(self) -> bool:
        return self.wrapped.is_prefix_stable

    def render(
        self, messages: list[Message], *, tools: list[ToolSpec] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        return self.wrapped.render(self._guarded(messages), tools=tools, add_generation_prompt=add_generation_prompt)

    def render_ids(
        self, messages: list[Message], *, tools: list[ToolSpec] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        return self.wrapped.render_ids(
            self._guarded(messages), tools=tools, add_generation_prompt=add_generation_prompt
        )

    def parse_response(
        self, token_ids: list[int], *, tools: list[ToolSpec] | None = None, prompt_ids: list[int] | None = None
    ) -> ParsedResponse:
        try:
            parsed = self.wrapped.parse_response(token_ids, tools=tools, prompt_ids=prompt_ids)
        except (ValueError, RecursionError):
            broken = ParsedToolCall(raw=self.decode(token_ids), status=ToolCallParseStatus.INVALID_JSON)
            return ParsedResponse(content="", tool_calls=[broken])
        for call in parsed.tool_calls:
            if nested_deeper(call.arguments, DEEPEST):
                call.arguments, call.status = None, ToolCallParseStatus.INVALID_JSON
            elif call.status in _GOOD and not isinstance(call.arguments, dict | None):
                call.arguments, call.status = None, ToolCallParseStatus.MALFORMED_STRUCTURE
        return parsed

    def get_stop_token_ids(self) -> list[int]:
        return self.wrapped.get_stop_token_ids()

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: list[Message],
        *,
        tools: list[ToolSpec] | None = None,
    ) -> RenderedTokens | None:
        bridged = self.wrapped.bridge_to_next_turn(
            previous_prompt_ids, previous_completion_ids, self._guarded(new_messages), tools=tools
        )
        expected = [*previous_prompt_ids, *previous_completion_ids]
        if bridged is None or bridged.token_ids[: len(expected)] != expected:
            return None
        return bridged

    def decode(self, token_ids: list[int]) -> str:
        """The text of token ids, control tokens spelled out; for people."""
        return self.tokenizer.decode(token_ids, skip_special_tokens=False)

    def _guarded(self, messages: list[Message]) -> list[Message]:
        return [cast(Message, self._guard(dict(message))) for message in messages]

    def _guard(self, value: Any) -> Any:
        if isinstance(value, str):
            return guard(value, self.tokenizer)
        if isinstance(value, dict):
            return {key: self._guard(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._guard(item) for item in value]
        return value
