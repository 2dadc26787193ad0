"""The one intermediate form between calls, the stored blob and a learner's sequences.

A trajectory's calls repeat themselves: call k+1's prompt is usually call k's prompt + generation + some new tokens. The
layout keeps every token once:

    stream   = suffix_0 generation_0 suffix_1 generation_1 ...
    shared_k = how many leading tokens of call k's prompt are those of call k-1's context (its prompt + generation)
    suffix_k = the rest of call k's prompt

Where `shared_k` is the whole previous context, call k *continues* the sequence, and the stream already is that
sequence; where it is less, the prefix has to be copied and a new sequence begins. So the layout is what the codec
writes, what `sequences` slices, and what prompts are rebuilt from, all without a Python loop over tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agentgym.store.records import Float32Array, Int32Array, ModelCall

Int64Array = npt.NDArray[np.int64]
_TOKEN_BYTES = 4


@dataclass(frozen=True, slots=True, eq=False)
class TokenLayout:
    """Every token of N calls, once.

    shared, suffix, generated: int64[N], lengths in tokens. stream: int32[sum(suffix) + sum(generated)].
    logprobs: float32[sum(generated)]. span_count: int64[N]; span_version, span_length: int64[sum(span_count)], whose
    lengths sum to `generated` call by call. temperature: float64[N].
    """

    shared: Int64Array
    suffix: Int64Array
    generated: Int64Array
    stream: Int32Array
    logprobs: Float32Array
    span_count: Int64Array
    span_version: Int64Array
    span_length: Int64Array
    temperature: npt.NDArray[np.float64]

    @property
    def calls(self) -> int:
        return len(self.shared)

    @property
    def context(self) -> Int64Array:
        """int64[N]: length of each call's prompt + generation."""
        return self.shared + self.suffix + self.generated

    def segments(self) -> Iterator[tuple[int, int]]:
        """Ranges [first, last) of calls that are one sequence, in order."""
        starts = np.flatnonzero(self.shared[1:] != self.context[:-1]) + 1
        edges = [0, *starts.tolist(), self.calls] if self.calls else []
        return itertools.pairwise(edges)

    def segment_tokens(self) -> Iterator[tuple[int, int, int, Int32Array]]:
        """(first, last, offset of the segment in `stream`, tokens of its last context) of each segment.

        Tokens are a view of `stream` where nothing had to be copied.
        """
        edges = np.concatenate([[0], np.cumsum(self.suffix + self.generated)])
        previous: Int32Array = self.stream[:0]
        for first, last in self.segments():
            start, stop = int(edges[first]), int(edges[last])
            prefix = previous[: int(self.shared[first])]
            own = self.stream[start:stop]
            previous = np.concatenate([prefix, own]) if len(prefix) else own
            yield first, last, start, previous

    def prompts(self) -> list[Int32Array]:
        """Every call's prompt_token_ids, as views that must not be written to."""
        prompt_length = (self.shared + self.suffix).tolist()
        return [
            tokens[: prompt_length[k]] for first, last, _, tokens in self.segment_tokens() for k in range(first, last)
        ]


def shared_prefix(prompt: Int32Array, previous: ModelCall) -> int:
    """How many leading tokens of `prompt` are those of the previous call's prompt + generation."""
    return _shared(prompt, bytearray(previous.prompt_token_ids.tobytes() + previous.generation_token_ids.tobytes()))


def _shared(prompt: Int32Array, context: bytearray) -> int:
    """The same for a context held as bytes, which are compared as such: in one pass, without an array of booleans."""
    held = len(context) // _TOKEN_BYTES
    head = np.ascontiguousarray(prompt[:held])
    if len(head) == held and context.startswith(head.data):
        return held
    differs = head != np.frombuffer(context, np.int32, len(head))
    return int(differs.argmax()) if differs.any() else len(head)


def layout_of(calls: Sequence[ModelCall]) -> TokenLayout:
    """The layout of a trajectory's calls. Costs one comparison of each prompt with the one before it."""
    shared: list[int] = []
    suffix: list[int] = []
    pieces: list[Int32Array] = []
    context = bytearray()
    for call in calls:
        kept = _shared(call.prompt_token_ids, context)
        own = call.prompt_token_ids[kept:]
        shared.append(kept)
        suffix.append(len(own))
        pieces += (own, call.generation_token_ids)
        del context[kept * _TOKEN_BYTES :]
        context += own.tobytes()
        context += call.generation_token_ids.tobytes()
    spans = [span for call in calls for span in call.policy_versions]
    return TokenLayout(
        shared=np.array(shared, np.int64),
        suffix=np.array(suffix, np.int64),
        generated=np.array([len(call.generation_token_ids) for call in calls], np.int64),
        stream=np.concatenate(pieces) if pieces else np.zeros(0, np.int32),
        logprobs=np.concatenate([call.logprobs for call in calls]) if calls else np.zeros(0, np.float32),
        span_count=np.array([len(call.policy_versions) for call in calls], np.int64),
        span_version=np.array([span.version for span in spans], np.int64),
        span_length=np.array([span.end - span.start for span in spans], np.int64),
        temperature=np.array([call.sampling.temperature for call in calls], np.float64),
    )
