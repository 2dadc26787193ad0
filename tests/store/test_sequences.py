"""Sequences: merged by exact prefix, split where the prefix breaks, every generated token once."""

from __future__ import annotations

import numpy as np

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
from agentgym.store.sequences import sequences


def call(prompt: list[int], generation: list[int], *spans: tuple[int, int], event: str = "append") -> ModelCall:
    """A call whose logprob of token t is -t/100; `spans` are (version, length)."""
    edges = np.cumsum([0, *(length for _, length in spans)]).tolist()
    return ModelCall(
        prompt_token_ids=np.array(prompt, np.int32),
        generation_token_ids=np.array(generation, np.int32),
        logprobs=-np.array(generation, np.float32) / 100,
        sampling=Sampling(),
        policy_versions=tuple(VersionSpan(version, edges[i], edges[i + 1]) for i, (version, _) in enumerate(spans)),
        finish_reason=FinishReason.STOP,
        context_event=ContextEvent(event),
    )


def trajectory(*calls: ModelCall) -> Trajectory:
    return Trajectory(
        task_id="t",
        task_digest="sha256:t",
        harness_digest="sha256:h",
        backend="local",
        image_digest="sha256:i",
        policy="p",
        policy_kind=PolicyKind.MODEL,
        calls=calls,
        steps=(),
        termination=Termination.SUBMITTED,
        reward=1.0,
    )


def test_calls_that_extend_each_other_are_one_sequence() -> None:
    [only] = sequences(trajectory(call([1, 2], [3, 4], (7, 2)), call([1, 2, 3, 4, 5], [6], (8, 1))))
    assert only.token_ids.tolist() == [1, 2, 3, 4, 5, 6]
    assert only.action_mask.tolist() == [False, False, True, True, False, True]
    assert only.policy_version.tolist() == [-1, -1, 7, 7, -1, 8]
    assert only.call_index.tolist() == [0, 0, 0, 0, 1, 1]
    np.testing.assert_array_equal(only.logprobs, np.array([0, 0, -0.03, -0.04, 0, -0.06], np.float32))
    assert (only.reward, only.termination, only.action_count) == (1.0, Termination.SUBMITTED, 3)
    assert only.token_ids.dtype == only.policy_version.dtype == only.call_index.dtype == np.int32
    assert only.logprobs.dtype == only.temperature.dtype == np.float32


def test_a_compaction_starts_a_sequence_whose_shared_prefix_is_context_only() -> None:
    first, second = sequences(
        trajectory(call([1, 2], [3, 4], (0, 2)), call([1, 2, 3, 9], [5], (0, 1), event="compacted"))
    )
    assert first.token_ids.tolist() == [1, 2, 3, 4]
    assert second.token_ids.tolist() == [1, 2, 3, 9, 5]
    assert second.action_mask.tolist() == [False, False, False, False, True]
    assert second.call_index.tolist() == [1, 1, 1, 1, 1]
    assert (first.index, second.index) == (0, 1)


def test_a_retry_with_the_same_prompt_is_a_sequence_of_its_own() -> None:
    first, second = sequences(trajectory(call([1, 2], [3], (0, 1)), call([1, 2], [4], (0, 1), event="rewritten")))
    assert (first.token_ids.tolist(), second.token_ids.tolist()) == ([1, 2, 3], [1, 2, 4])
    assert first.action_count == second.action_count == 1


def test_an_empty_generation_keeps_the_sequence_going() -> None:
    [only] = sequences(trajectory(call([1, 2], []), call([1, 2, 3], [4], (0, 1))))
    assert only.token_ids.tolist() == [1, 2, 3, 4]
    assert only.call_index.tolist() == [0, 0, 1, 1]


def test_a_weight_update_in_the_middle_of_a_generation_is_kept_token_by_token() -> None:
    [only] = sequences(trajectory(call([1], [2, 3, 4], (5, 1), (6, 2))))
    assert only.policy_version.tolist() == [-1, 5, 6, 6]


def test_segments_without_generated_tokens_and_trajectories_without_calls_give_nothing() -> None:
    assert sequences(trajectory()) == []
    [only] = sequences(trajectory(call([1, 2], []), call([7], [8], (0, 1), event="rewritten")))
    assert only.token_ids.tolist() == [7, 8]
