"""The text of an answer while it is still being sampled: as much of it as will surely be the beginning of what the client gets.

What is sampled becomes an answer only as a whole (`reading.py`): a call is taken out of the text, reasoning is kept apart, a stop
string cuts. So text is held back from the first character on that could begin any of these, which in every dialect is one of
`< [ {`; also a tail that may be the beginning of a stop string, or of a character, and white space at either end, which
parsers strip. Where the prompt has opened the reasoning, or a header that the policy goes on with (harmony), all is held
back. Nothing that is decided here enters the record.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from dataclasses import dataclass, field

from agentgym.store.records import FinishReason, Int32Array
from harness.gateway.ask import Answer, Ask
from harness.policies.protocol import Generation
from harness.render import GuardedRenderer

_MARKUP = re.compile(r"[<\[{]")
_OPENED = re.compile(r"<(/?)(?:think|thinking|reasoning)>")
_HEADER = "<|start|>assistant"
_TAIL = 32
"""Tokens at the end of a prompt in which its template may have opened the reasoning."""


@dataclass(slots=True, eq=False)
class Live:
    """text: what can be handed on by now. changed: set when there is more, and replaced by another. id, created: the answer's."""

    ask: Ask
    renderer: GuardedRenderer
    text: str = ""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))
    _prompt: Int32Array | None = None
    _ids: list[int] = field(default_factory=list)
    _next: int = 1
    _held: bool = False

    def begin(self, prompt: Int32Array) -> None:
        """The prompt that is being answered."""
        self._prompt = prompt
        if self.ask.messages:
            tail = self.renderer.decode(prompt[-_TAIL:].tolist())
            marks = _OPENED.findall(tail)
            self._held = (bool(marks) and not marks[-1]) or tail.endswith(_HEADER)

    def take(self, token_ids: list[int]) -> None:
        """The newest tokens."""
        self._ids += token_ids
        if self._held or len(self._ids) < self._next:
            return
        self._next = len(self._ids) + 1 + len(self._ids) // 64  # each look decodes all, so there are fewer of them
        text = self._safe()
        if len(text) > len(self.text) and text.startswith(self.text):
            self.text = text
            told, self.changed = self.changed, asyncio.Event()
            told.set()

    def answer(self, length: int) -> Answer:
        """The answer as it would be if the first `length` characters were all of it."""
        assert self._prompt is not None, "there is text only after a prompt"
        nothing = Generation(self._prompt[:0], self._prompt[:0].astype("float32"), (), FinishReason.ABORT)
        return Answer(self._prompt, nothing, self.text[:length], None, (), "stop", id=self.id, created=self.created)

    def _safe(self) -> str:
        stops = self.renderer.get_stop_token_ids()
        text = self.renderer.decode([token for token in self._ids if token not in stops]).rstrip("\ufffd")
        if found := [at for stop in self.ask.stop if (at := text.find(stop)) >= 0]:
            text, self._held = text[: min(found)], True
        elif self.ask.stop:
            text = text[: max(0, len(text) + 1 - max(map(len, self.ask.stop)))]
        if self.ask.messages:
            if text[:1].isspace():
                return ""
            if markup := _MARKUP.search(text):
                text, self._held = text[: markup.start()], True
            text = text.rstrip()
        return text
