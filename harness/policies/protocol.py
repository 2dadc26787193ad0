"""The policy protocol: token ids in, token ids and their exact logprobs out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from agentgym.errors import AgentGymError
from agentgym.store.records import FinishReason, Float32Array, Int32Array, PolicyKind, Sampling, VersionSpan

OnTokens = Callable[[list[int]], None]
"""Told token ids as they are sampled."""


class PolicyError(AgentGymError):
    """The policy, or the server behind it, gave no usable answer. Ends the episode as `policy_failure`."""


class PublishError(PolicyError):
    """A policy did not take over new weights; it serves the old ones, under their version."""


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """One answer. token_ids: int32[G] with the stop token; logprobs: float32[G] nats, as in `ModelCall`."""

    token_ids: Int32Array
    logprobs: Float32Array
    versions: tuple[VersionSpan, ...]
    finish_reason: FinishReason


class Policy(Protocol):
    """Samples token ids. `name` says which policy, `version` which weights are being served now."""

    name: str
    kind: PolicyKind
    model: str
    context_length: int

    @property
    def version(self) -> int: ...

    async def generate(
        self,
        prompt_token_ids: Int32Array,
        *,
        sampling: Sampling,
        max_tokens: int,
        stop_token_ids: Sequence[int],
        episode_id: str,
    ) -> Generation:
        """Sample up to `max_tokens`. `episode_id` keys what may be kept between turns (KV cache, server affinity)."""
        ...

    async def end_episode(self, episode_id: str) -> None:
        """Forget what was kept for this episode."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class StreamingPolicy(Policy, Protocol):
    """A policy that tells what it samples while it samples. Only the generation at the end is evidence."""

    async def stream(
        self,
        prompt_token_ids: Int32Array,
        *,
        sampling: Sampling,
        max_tokens: int,
        stop_token_ids: Sequence[int],
        episode_id: str,
        on_tokens: OnTokens,
    ) -> Generation:
        """`generate`, told along the way. Raises PolicyError also where what was told cannot be kept."""
        ...
