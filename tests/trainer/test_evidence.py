"""Which trajectories may teach, and what of them becomes a tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from agentgym.store.records import PolicyKind, Sampling, Termination, Trajectory
from trainer.batch import Batch
from trainer.config import EvidenceRules
from trainer.evidence import Drop, Evidence, judge

RULES = EvidenceRules(max_staleness=2, max_sequence_tokens=200)


def with_sampling(trajectory: Trajectory, **values) -> Trajectory:
    return replace(trajectory, calls=tuple(replace(call, sampling=Sampling(**values)) for call in trajectory.calls))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"policy_kind": PolicyKind.SCRIPTED}, Drop.NOT_A_MODEL),
        ({"termination": Termination.ENVIRONMENT_FAILURE, "reward": None}, Drop.FAILURE),
        ({"termination": Termination.POLICY_FAILURE}, Drop.FAILURE),
        ({"reward": None}, Drop.NO_REWARD),
        ({"calls": ()}, Drop.NO_ACTIONS),
    ],
)
def test_what_is_no_evidence_is_left_out_under_its_reason(policy, sample, changes: dict, reason: Drop) -> None:
    assert judge(replace(sample(policy), **changes), RULES, version=0) is reason


def test_a_distribution_that_was_cut_has_no_ratio(policy, sample) -> None:
    trajectory = sample(policy)
    assert judge(with_sampling(trajectory, top_p=0.9), RULES, version=0) is Drop.TRUNCATED_SAMPLING
    assert judge(with_sampling(trajectory, top_k=5), RULES, version=0) is Drop.TRUNCATED_SAMPLING
    assert judge(with_sampling(trajectory, temperature=0.0), RULES, version=0) is Drop.GREEDY_SAMPLING


def test_the_oldest_token_decides_staleness(policy, sample) -> None:
    old, new = sample(policy, version=1), sample(policy, version=3)
    mixed = replace(new, calls=(old.calls[0], *new.calls[1:]))
    assert isinstance(judge(new, RULES, version=5), Evidence)
    assert judge(mixed, RULES, version=3 + 1) is Drop.STALE
    assert isinstance(judge(mixed, RULES, version=3), Evidence)


def test_a_version_the_learner_has_not_reached_belongs_to_another_run(policy, sample) -> None:
    assert judge(sample(policy, version=4), RULES, version=3) is Drop.FUTURE_VERSION


def test_a_sequence_over_the_cap_is_left_out(policy, sample) -> None:
    assert judge(sample(policy), EvidenceRules(max_sequence_tokens=10), version=0) is Drop.TOO_LONG


def test_rows_hold_exactly_the_sampled_tokens(policy, sample) -> None:
    trajectory = sample(policy, turns=4, compact_at=2, temperature=0.7, version=2)
    evidence = judge(trajectory, RULES, version=2)
    assert isinstance(evidence, Evidence)
    assert len(evidence.rows) == 2
    sampled = [token for call in trajectory.calls for token in call.generation_token_ids.tolist()]
    recorded = [value for call in trajectory.calls for value in call.logprobs.tolist()]
    assert [int(t) for row in evidence.rows for t in row.token_ids[row.positions]] == sampled
    assert [float(v) for row in evidence.rows for v in row.behaviour] == recorded
    assert all(float(t) == pytest.approx(0.7) for row in evidence.rows for t in row.temperature)
    assert {int(v) for row in evidence.rows for v in row.version} == {2}


@pytest.mark.parametrize("limit", [1, 64, 10_000])
def test_micro_batches_cover_the_chain_exactly_once(policy, sample: Callable[..., Trajectory], limit: int) -> None:
    """Given trajectories of several rows, whatever the split, then every action token has its own cell of the chain."""
    trajectories = [sample(policy, seed=seed, turns=1 + seed, compact_at=seed % 3) for seed in range(4)]
    evidence = [judge(trajectory, RULES, version=0) for trajectory in trajectories]
    batch = Batch.of([item for item in evidence if isinstance(item, Evidence)], micro_batch_tokens=limit)
    flat = torch.zeros(batch.chain.tokens, dtype=torch.int64)
    seen = torch.zeros(batch.chain.tokens, dtype=torch.int64)
    closes = []
    for micro in batch.micro_batches:
        flat[micro.cells] = micro.token_ids[micro.actions]
        seen[micro.cells] += 1
        closes += [c for c in micro.closes.tolist() if c >= 0]
        assert micro.tokens <= limit or len(micro.lengths) == 1
    assert seen.tolist() == [1] * batch.chain.tokens
    assert sorted(closes) == [0, 1, 2, 3]
    assert flat.tolist() == [t for x in trajectories for call in x.calls for t in call.generation_token_ids.tolist()]
