"""What an API is to the gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from harness.gateway.ask import Answer, Ask
from harness.gateway.refusal import Refusal, unsupported, unusable
from harness.render import GuardedRenderer

Body = Mapping[str, Any]

SILENT = frozenset({"model", "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"})
"""Parameters that say nothing about what is sampled."""

_KINDS: Mapping[str, tuple[type, str]] = {
    "tools": (list, "a list"),
    "stream_options": (dict, "an object"),
    "stream": (bool, "true or false"),
    "return_token_ids": (bool, "true or false"),
    "parallel_tool_calls": (bool, "true or false"),
}
"""What a parameter must be that is the same in every API, and is read as it came."""


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event. chars: characters of the reply's text it hands over."""

    data: Any
    name: str | None = None
    chars: int = 0

    def encode(self) -> bytes:
        text = self.data if isinstance(self.data, str) else json.dumps(self.data, ensure_ascii=False)
        head = f"event: {self.name}\n" if self.name else ""
        return f"{head}data: {text}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Served:
    """Who answers. model: its name, which clients are told."""

    model: str
    renderer: GuardedRenderer


class Dialect(Protocol):
    """One API. Reading raises Refusal."""

    def read(self, body: Body) -> Ask: ...

    def document(self, body: Body, answer: Answer, served: Served) -> dict[str, Any]:
        """The answer in one piece."""
        ...

    def events(self, body: Body, answer: Answer, served: Served) -> Iterator[Event]:
        """The answer as a stream. An answer that begins with another's content, and is the same otherwise, begins with its events
        up to the last that hands over text (what an answer holds besides comes before its content only where it has reasoning).
        """
        ...

    def refusal(self, refusal: Refusal) -> dict[str, Any]: ...


def check_parameters(body: Body, known: frozenset[str], fixed: Mapping[str, tuple[object, ...]]) -> None:
    """Refuse parameters that nobody here knows, values of another kind, and others than those that change nothing.

    fixed: values a parameter may have because they are what happens anyway.
    """
    for name, value in body.items():
        if name in fixed:
            if value is not None and value not in fixed[name]:
                allowed = " or ".join(map(repr, fixed[name])) or "leaving it out"
                raise unsupported(name, value, f"only {allowed} can be had from a token-exact policy")
        elif name not in known and name not in SILENT and value is not None:
            raise unsupported(name, value, "no such parameter")
        elif name in _KINDS and value is not None and not isinstance(value, _KINDS[name][0]):
            raise unusable(f"{name} must be {_KINDS[name][1]} (got {value!r})", name)


PIECE = 12
"""Characters of one part of a stream."""


def pieces(text: str, size: int = PIECE) -> Iterator[str]:
    """Text in parts, as a stream hands it over; the parts of its beginning are the first of its own."""
    for start in range(0, len(text), size):
        yield text[start : start + size]
