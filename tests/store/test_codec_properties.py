"""Any interleaving of calls, compactions, retries, aborts, empty and one-token generations and mid-generation weight
updates keeps the invariants and round-trips bit for bit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.store.codec import decode_calls, encode_calls
from agentgym.store.records import (
    ContextEvent,
    FinishReason,
    ModelCall,
    PolicyKind,
    Sampling,
    Termination,
    Trajectory,
    VersionSpan,
)
from agentgym.store.sequences import Sequence, sequences
from agentgym.store.validate import faults

# Few distinct ids, so that prompts share prefixes by accident too; the large ones need 32 bits.
token_ids = st.lists(st.sampled_from([0, 1, 2, 3, 65_535, 65_536, 151_000, 2**31 - 1]), max_size=6)
small_ids = st.lists(st.integers(0, 3), max_size=6)
seconds = st.floats(0, 2e9)


@st.composite
def one_call(draw: st.DrawFn, previous: ModelCall | None, ids: st.SearchStrategy[list[int]]) -> ModelCall:
    move = draw(st.sampled_from(["append", "compacted", "truncated", "rewritten", "retry", "resume"]))
    before = np.concatenate([previous.prompt_token_ids, previous.generation_token_ids]).tolist() if previous else []
    prompt = {
        "append": lambda: before + draw(ids),
        "resume": lambda: before,
        "retry": lambda: previous.prompt_token_ids.tolist() if previous else draw(ids),
        "truncated": lambda: before[draw(st.integers(0, len(before))) :] + draw(ids),
        "compacted": lambda: before[: draw(st.integers(0, len(before)))] + draw(ids),
        "rewritten": lambda: draw(ids),
    }[move]()
    generation = draw(ids)
    cuts = sorted(draw(st.lists(st.integers(0, len(generation)), max_size=3)))
    edges = [0, *cuts, len(generation)]
    first_version = draw(st.integers(0, 2**31 - 5))
    event = ContextEvent.APPEND if move in ("append", "resume") else ContextEvent.REWRITTEN
    return ModelCall(
        prompt_token_ids=np.array(prompt, np.int32),
        generation_token_ids=np.array(generation, np.int32),
        logprobs=np.array([draw(st.floats(-(2.0**100), 0, width=32)) for _ in generation], np.float32),
        sampling=Sampling(
            temperature=draw(st.floats(0, 2)),
            top_p=draw(st.floats(0, 1)),
            top_k=draw(st.integers(-1, 100)),
            seed=draw(st.none() | st.integers(-(2**63), 2**63 - 1)),
        ),
        policy_versions=tuple(
            VersionSpan(first_version + i, start, end) for i, (start, end) in enumerate(itertools.pairwise(edges))
        ),
        finish_reason=draw(st.sampled_from(FinishReason)),
        context_event=ContextEvent(move) if move in ("compacted", "truncated") else event,
        started_at=draw(seconds),
        duration=draw(seconds),
    )


@st.composite
def any_calls(draw: st.DrawFn) -> tuple[ModelCall, ...]:
    ids = draw(st.sampled_from([token_ids, small_ids]))
    calls: list[ModelCall] = []
    for _ in range(draw(st.integers(0, 7))):
        calls.append(draw(one_call(calls[-1] if calls else None, ids)))
    return tuple(calls)


def of(calls: tuple[ModelCall, ...]) -> Trajectory:
    return Trajectory(
        task_id="t",
        task_digest="d",
        harness_digest="h",
        backend="local",
        image_digest="i",
        policy="p",
        policy_kind=PolicyKind.MODEL,
        calls=calls,
        steps=(),
        termination=Termination.SUBMITTED,
        reward=0.0,
    )


def as_plain(call: ModelCall) -> tuple[Any, ...]:
    return (
        call.prompt_token_ids.tolist(),
        call.prompt_token_ids.dtype,
        call.generation_token_ids.tolist(),
        call.generation_token_ids.dtype,
        call.logprobs.tobytes(),
        call.logprobs.dtype,
        call.sampling,
        call.policy_versions,
        call.finish_reason,
        call.context_event,
        call.started_at,
        call.duration,
    )


@settings(max_examples=150, deadline=None)
@given(any_calls())
def test_calls_round_trip_bit_for_bit(calls: tuple[ModelCall, ...]) -> None:
    assert faults(of(calls)) == []
    encoded = encode_calls(calls)
    assert [as_plain(call) for call in decode_calls(encoded.blob)] == [as_plain(call) for call in calls]
    assert encode_calls(decode_calls(encoded.blob)).blob == encoded.blob
    assert encoded.action_tokens == sum(len(call.generation_token_ids) for call in calls)


@settings(max_examples=150, deadline=None)
@given(any_calls())
def test_sequences_hold_every_generated_token_once_behind_its_prompt(calls: tuple[ModelCall, ...]) -> None:
    derived = sequences(of(calls))
    actions = [action for sequence in derived for action in actions_of(sequence)]
    expected = [
        (k, [*prompt, *generation[:i]], generation[i], call.logprobs[i].tobytes(), version_at(call, i))
        for k, call in enumerate(calls)
        for prompt, generation in [(call.prompt_token_ids.tolist(), call.generation_token_ids.tolist())]
        for i in range(len(generation))
    ]
    assert actions == expected
    for sequence in derived:
        idle = ~sequence.action_mask
        assert not sequence.logprobs[idle].any()
        assert (sequence.policy_version[idle] == -1).all()


@settings(max_examples=100, deadline=None)
@given(any_calls())
def test_calls_are_merged_exactly_where_the_prompt_extends_the_last_context(calls: tuple[ModelCall, ...]) -> None:
    segments: list[list[int]] = []
    for k, call in enumerate(calls):
        previous = calls[k - 1] if k else None
        before = [*previous.prompt_token_ids.tolist(), *previous.generation_token_ids.tolist()] if previous else None
        if before is None or call.prompt_token_ids.tolist()[: len(before)] != before:
            segments.append([])
        segments[-1].append(k)
    trained = [[k for k in segment if len(calls[k].generation_token_ids)] for segment in segments]
    derived = [sorted(set(s.call_index[s.action_mask].tolist())) for s in sequences(of(calls))]
    assert derived == [segment for segment in trained if segment]


def version_at(call: ModelCall, i: int) -> int:
    return next(span.version for span in call.policy_versions if span.start <= i < span.end)


def actions_of(sequence: Sequence) -> list[tuple[int, list[int], int, bytes, int]]:
    tokens = sequence.token_ids.tolist()
    return [
        (
            int(sequence.call_index[at]),
            tokens[:at],
            tokens[at],
            sequence.logprobs[at].tobytes(),
            int(sequence.policy_version[at]),
        )
        for at in np.flatnonzero(sequence.action_mask).tolist()
    ]
