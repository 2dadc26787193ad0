"""A request to the policy, whatever API it came by, and the answer, whatever API it goes out by.

Both are what `api/` translates from and to. Messages are canonical (`messages.py`), so that equal conversations are equal
values, and a request has a digest: that of everything which decides what is sampled, and of nothing else (streaming or not,
user tags, and the model's name make no difference).
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from agentgym.store.records import Int32Array, Sampling
from harness.policies.protocol import Generation

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """messages: the conversation, or empty where `text` or `token_ids` is a raw prompt.

    tools: JSON schemas in OpenAI's envelope. read_calls: tool calls are looked for in what is sampled. one_call: a turn with
    more than one call is handed on as text. temperature ... seed: None is the profile's. max_tokens: None is the profile's.
    stop: strings; sampling ends with the token that completes one.
    """

    messages: tuple[Message, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    read_calls: bool = False
    one_call: bool = False
    text: str | None = None
    token_ids: tuple[int, ...] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def sampling(self, default: Sampling) -> Sampling:
        """`default` where the client says nothing."""
        return Sampling(
            temperature=default.temperature if self.temperature is None else self.temperature,
            top_p=default.top_p if self.top_p is None else self.top_p,
            top_k=default.top_k if self.top_k is None else self.top_k,
            seed=default.seed if self.seed is None else self.seed,
        )


@dataclass(frozen=True, slots=True)
class ToolCall:
    """arguments: JSON text, as the OpenAI API has it."""

    id: str
    name: str
    arguments: str

    @property
    def parsed(self) -> Mapping[str, Any]:
        return json.loads(self.arguments)


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """prompt: int32[P]. content: text for the client, without control tokens. finish: stop | length | tool_calls.

    stopped_by: the stop string that ended it, which is not part of `content`.
    """

    prompt: Int32Array
    generation: Generation
    content: str
    reasoning: str | None
    calls: tuple[ToolCall, ...]
    finish: str
    stopped_by: str | None = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def characters(self) -> int:
        """How many there are for a client to read: what it thinks, says and calls with."""
        return sum(map(len, [self.reasoning or "", self.content, *(call.arguments for call in self.calls)]))

    @property
    def message(self) -> Message:
        """The assistant message, canonical: what the client will send back."""
        message: Message = {"role": "assistant", "content": self.content}
        if self.calls:
            message["tool_calls"] = [
                {"type": "function", "id": call.id, "function": {"name": call.name, "arguments": call.parsed}}
                for call in self.calls
            ]
        return message
