"""Sequences: merged by exact prefix, split where the prefix breaks, every generated token once."""

from __future__ import annotations

import numpy as np

from agentgym.store.records import Termination
from agentgym.store.sequences import sequences


def test_calls_that_extend_each_other_are_one_sequence(make_call, make_trajectory) -> None:
    calls = make_call([1, 2], [3, 4], (7, 2)), make_call([1, 2, 3, 4, 5], [6], (8, 1))
    [only] = sequences(make_trajectory(*calls))
    assert only.token_ids.tolist() == [1, 2, 3, 4, 5, 6]
    assert only.action_mask.tolist() == [False, False, True, True, False, True]
    assert only.policy_version.tolist() == [-1, -1, 7, 7, -1, 8]
    assert only.call_index.tolist() == [0, 0, 0, 0, 1, 1]
    np.testing.assert_array_equal(only.logprobs, np.array([0, 0, -0.03, -0.04, 0, -0.06], np.float32))
    np.testing.assert_array_equal(only.temperature, np.full(6, 0.7, np.float32))
    assert (only.reward, only.termination, only.action_count) == (1.0, Termination.SUBMITTED, 3)
    assert only.token_ids.dtype == only.policy_version.dtype == only.call_index.dtype == np.int32
    assert only.logprobs.dtype == only.temperature.dtype == np.float32


def test_a_compaction_starts_a_sequence_whose_shared_prefix_is_context_only(make_call, make_trajectory) -> None:
    calls = make_call([1, 2], [3, 4]), make_call([1, 2, 3, 9], [5], event="compacted")
    first, second = sequences(make_trajectory(*calls))
    assert first.token_ids.tolist() == [1, 2, 3, 4]
    assert second.token_ids.tolist() == [1, 2, 3, 9, 5]
    assert second.action_mask.tolist() == [False, False, False, False, True]
    assert second.call_index.tolist() == [1, 1, 1, 1, 1]
    assert (first.index, second.index) == (0, 1)


def test_a_retry_with_the_same_prompt_is_a_sequence_of_its_own(make_call, make_trajectory) -> None:
    calls = make_call([1, 2], [3]), make_call([1, 2], [4], event="rewritten")
    first, second = sequences(make_trajectory(*calls))
    assert (first.token_ids.tolist(), second.token_ids.tolist()) == ([1, 2, 3], [1, 2, 4])
    assert first.action_count == second.action_count == 1


def test_an_empty_generation_keeps_the_sequence_going(make_call, make_trajectory) -> None:
    [only] = sequences(make_trajectory(make_call([1, 2], []), make_call([1, 2, 3], [4])))
    assert only.token_ids.tolist() == [1, 2, 3, 4]
    assert only.call_index.tolist() == [0, 0, 1, 1]


def test_a_weight_update_in_the_middle_of_a_generation_is_kept_token_by_token(make_call, make_trajectory) -> None:
    [only] = sequences(make_trajectory(make_call([1], [2, 3, 4], (5, 1), (6, 2))))
    assert only.policy_version.tolist() == [-1, 5, 6, 6]


def test_segments_without_generated_tokens_give_nothing(make_call, make_trajectory) -> None:
    calls = make_call([1, 2], []), make_call([7], [8], event="rewritten")
    [only] = sequences(make_trajectory(*calls))
    assert only.token_ids.tolist() == [7, 8]
    assert sequences(make_trajectory(make_call([1, 2], []))) == []
