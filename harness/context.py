"""The policy's context: which token ids the next call sees, and how they relate to the call before.

The first prompt is rendered from messages. Every later prompt is the previous prompt + the exact generation + newly
rendered tokens (`APPEND`). Where a renderer cannot extend a turn (a model that ended inside its reasoning, say), the
stop token, and failing that the whole generation, is left out and the template closes the turn; the prompt then no
longer starts with what was sampled, and the call that gets it says so (`REWRITTEN`). Sampled ids are never made again
from text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from renderers import Message, ParsedResponse, ToolSpec

from agentgym.store.records import ContextEvent, Int32Array
from harness.render import GuardedRenderer, RenderError


@dataclass(slots=True)
class Context:
    """The prompt as it grows. event: how the current prompt came from the call before."""

    renderer: GuardedRenderer
    tools: Sequence[dict[str, Any]]
    event: ContextEvent = ContextEvent.APPEND
    _ids: list[int] = field(default_factory=list)

    @property
    def prompt(self) -> Int32Array:
        """int32[P]; a copy, so that a record of it never changes."""
        return np.asarray(self._ids, dtype=np.int32)

    def __len__(self) -> int:
        return len(self._ids)

    def begin(self, messages: Sequence[dict[str, Any]]) -> None:
        self._ids = self.renderer.render_ids(
            cast(list[Message], list(messages)), tools=self._specs, add_generation_prompt=True
        )
        self.event = ContextEvent.APPEND

    def parse(self, generation: Int32Array) -> ParsedResponse:
        return self.renderer.parse_response(generation.tolist(), tools=self._specs, prompt_ids=self._ids)

    def extend(self, generation: Int32Array, messages: Sequence[dict[str, Any]]) -> None:
        """Go on to the next turn: what the policy sampled, then `messages`; raises RenderError where no way works."""
        new, sampled = cast(list[Message], list(messages)), generation.tolist()
        bridged = self.renderer.bridge_to_next_turn(self._ids, sampled, new, tools=self._specs)
        self.event = ContextEvent.APPEND if bridged else ContextEvent.REWRITTEN
        for shortened in (sampled[:-1], []):
            bridged = bridged or self.renderer.bridge_to_next_turn(self._ids, shortened, new, tools=self._specs)
        if bridged is None:
            raise RenderError(
                f"the renderer {self.renderer.name!r} cannot extend a conversation with messages of the roles "
                f"{[message['role'] for message in new]}"
            )
        self._ids = bridged.token_ids

    @property
    def _specs(self) -> list[ToolSpec]:
        return cast(list[ToolSpec], list(self.tools))
