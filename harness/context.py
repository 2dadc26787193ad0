"""The policy's context: which token ids the next call sees, and how they relate to the call before.

The first prompt is rendered from messages. Every later prompt is the previous prompt + the exact generation + newly
rendered tokens (`APPEND`). Where a renderer cannot extend a turn (a model that ended inside its reasoning, say), the
stop token, and failing that the whole generation, is left out and the template closes the turn; the prompt then no
longer starts with what was sampled, and the call that gets it says so (`REWRITTEN`).

A prompt that has grown past `at_tokens` is compacted as the profile says: the prompt is laid anew from the first messages and
the turns that stay, each with the ids that were sampled in it, so also then no sampled token is made again from text.

    truncate-observations   all turns stay, older observations are cut short            (TRUNCATED)
    window                  the last turns stay, a note says how many are gone          (TRUNCATED)
    summarise               the policy is asked for a summary (a call of its own, recorded and trainable), which stands
                            in the first user message in place of all turns             (COMPACTED)

Sequences split exactly at these events; credit still runs across them, since it follows calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from renderers import Message, ParsedResponse, ToolSpec

from agentgym.store.records import ContextEvent, Int32Array
from harness.profile import ContextPolicy
from harness.render import GuardedRenderer, extend
from harness.tools.text import shorten

_WORTH_IT = 0.9
"""A compaction that leaves more than this share of the prompt would only split the sequence again next turn."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """What the policy sampled, and the messages that answered it."""

    sampled: list[int]
    messages: list[dict[str, Any]]


@dataclass(slots=True)
class Context:
    """The prompt as it grows.

    at_tokens: length past which it is compacted. event: how the current prompt came from the call before. awaits_summary:
    the prompt asks for a summary, and what the policy samples next belongs to `summarised`, not to `extend`.
    """

    renderer: GuardedRenderer
    tools: Sequence[dict[str, Any]]
    policy: ContextPolicy = ContextPolicy()
    at_tokens: int = 1 << 62
    event: ContextEvent = ContextEvent.APPEND
    awaits_summary: bool = False
    _ids: list[int] = field(default_factory=list)
    _first: list[dict[str, Any]] = field(default_factory=list)
    _turns: list[_Turn] = field(default_factory=list)

    @property
    def prompt(self) -> Int32Array:
        """int32[P]; a copy, so that a record of it never changes."""
        return np.asarray(self._ids, dtype=np.int32)

    def __len__(self) -> int:
        return len(self._ids)

    def begin(self, messages: Sequence[dict[str, Any]]) -> None:
        self._first, self._turns = list(messages), []
        self._ids = self._render(self._first)
        self.event = ContextEvent.APPEND

    def resume(self, prompt: Int32Array) -> None:
        """Go on from a prompt that was really seen, whatever the same messages are rendered to today."""
        self._ids = prompt.tolist()

    def parse(self, generation: Int32Array) -> ParsedResponse:
        return self.renderer.parse_response(generation.tolist(), tools=self._specs, prompt_ids=self._ids)

    def extend(self, generation: Int32Array, messages: Sequence[dict[str, Any]]) -> None:
        """Go on to the next turn: what the policy sampled, then `messages`; raises RenderError where no way works."""
        before, turn = self._ids, _Turn(generation.tolist(), list(messages))
        self._turns.append(turn)
        self._ids, exact = self._bridge(before, turn)
        if len(self._ids) > self.at_tokens and self.policy.kind == "summarise" and len(self._turns) > 1:
            self.awaits_summary = True
            request = {"role": "user", "content": self.policy.summary_request}
            self._ids, exact = self._bridge(before, replace(turn, messages=[*turn.messages, request]))
        self.event = ContextEvent.APPEND if exact else ContextEvent.REWRITTEN
        if len(self._ids) > self.at_tokens:
            self._compact()

    def summarised(self, generation: Int32Array) -> None:
        """Go on from the summary the policy just gave, in place of all turns so far."""
        self.awaits_summary = False
        text = self.parse(generation).content.strip() or "(no summary was given)"
        self._turns = []
        self._ids = self._render(self._with_note(f"You have worked on this already. Your summary of it:\n\n{text}"))
        self.event = ContextEvent.COMPACTED

    def _compact(self) -> None:
        keep = self.policy.keep_turns
        first, turns = self._first, self._turns
        if self.policy.kind == "truncate-observations":
            turns = [*map(self._cut_short, turns[:-keep]), *turns[-keep:]]
        elif self.policy.kind == "window" and len(turns) > keep:
            turns = turns[-keep:]
            first = self._with_note(f"[{len(self._turns) - keep} earlier turns are left out here]")
        else:
            return
        ids = self._render(first)
        for turn in turns:
            ids, _ = self._bridge(ids, turn)
        if len(ids) <= _WORTH_IT * len(self._ids):
            self._ids, self.event = ids, ContextEvent.TRUNCATED

    def _cut_short(self, turn: _Turn) -> _Turn:
        cut = [{**m, "content": shorten(m["content"], self.policy.observation_chars)[0]} for m in turn.messages]
        return replace(turn, messages=cut)

    def _with_note(self, note: str) -> list[dict[str, Any]]:
        *others, last = self._first
        return [*others, {**last, "content": f"{last['content']}\n\n{note}"}]

    def _render(self, messages: Sequence[dict[str, Any]]) -> list[int]:
        return self.renderer.render_ids(
            cast(list[Message], list(messages)), tools=self._specs, add_generation_prompt=True
        )

    def _bridge(self, prompt: list[int], turn: _Turn) -> tuple[list[int], bool]:
        """The prompt after a turn, and whether it starts with the prompt before and all that was sampled."""
        return extend(self.renderer, prompt, turn.sampled, turn.messages, self.tools)

    @property
    def _specs(self) -> list[ToolSpec]:
        return cast(list[ToolSpec], list(self.tools))
