"""A streamed answer of a vLLM server, put together to what the endpoint would have answered in one piece.

Each event brings the newest token ids with their logprobs, the first one the prompt's ids, the last one why it ended and which
weights sampled which tokens. So whoever reads along has tokens that nobody has vouched for yet, and the record is made of
the whole.
"""

from __future__ import annotations

from typing import Any

from harness.policies.protocol import OnTokens, PolicyError


class StreamedAnswer:
    """on_tokens: told the ids of each event as it comes."""

    def __init__(self, on_tokens: OnTokens) -> None:
        self._on_tokens = on_tokens
        self._token_ids: list[int] = []
        self._logprobs: list[Any] = []
        self._last: dict[str, Any] = {}
        self._first: dict[str, Any] = {}

    def take(self, event: Any) -> None:
        """One event's data. Raises PolicyError where it reports an error."""
        if "error" in event:
            raise PolicyError(f"the server gave up a streamed generation: {event['error']}")
        if event.get("prompt_token_ids") is not None:
            self._first = {"prompt_token_ids": event["prompt_token_ids"]}
        for choice in event.get("choices") or ():
            new = choice.get("token_ids") or []
            self._token_ids += new
            self._logprobs += (choice.get("logprobs") or {}).get("content") or []
            self._last = {name: choice.get(name) for name in ("finish_reason", "weight_versions")}
            if new:
                self._on_tokens(new)

    @property
    def document(self) -> dict[str, Any]:
        """The answer, as the endpoint gives it to who does not stream."""
        choice = {"token_ids": self._token_ids, "logprobs": {"content": self._logprobs}, **self._last}
        return {"choices": [choice], **self._first}
