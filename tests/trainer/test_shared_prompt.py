"""A prompt that several rollouts share is computed once, and nothing else changes: not a value, not a gradient."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from trainer.batch import Batch
from trainer.config import EvidenceRules, LearnerConfig
from trainer.critic import Critic
from trainer.evidence import Evidence, judge
from trainer.learner import Learner
from trainer.models import action_logprobs, prepare

PROMPT = list(range(1, 25))


@pytest.fixture
def evidence(policy, sample) -> list[Evidence]:
    """Three rollouts of one prompt, of different length, and one of another; the second prompt of a compacted one is its own."""
    drawn = [sample(policy, seed=seed, turns=1 + seed, prompt=PROMPT, reward=float(seed == 1)) for seed in range(2)]
    drawn += [sample(policy, seed=2, turns=3, prompt=PROMPT, compact_at=1), sample(policy, seed=3, turns=2)]
    return [found for one in drawn if isinstance(found := judge(one, EvidenceRules(), version=0), Evidence)]


def batches(evidence: list[Evidence]) -> tuple[Batch, Batch]:
    """With the prompt shared, and the same with each row alone."""
    shared, alone = (Batch.of(evidence, micro_batch_tokens=limit) for limit in (10_000, 1))
    assert [micro.shared for micro in shared.micro_batches] == [len(PROMPT) - 1, 0]
    assert not any(micro.shared for micro in alone.micro_batches)
    return shared, alone


def test_logprobs_and_gradients_are_those_of_whole_rows(policy, evidence: list[Evidence]) -> None:
    prepare(policy)
    found = []
    for batch in batches(evidence):
        policy.zero_grad()
        logprobs = torch.zeros(batch.chain.tokens)
        for micro in batch.micro_batches:
            logprobs[micro.cells] = action_logprobs(policy, micro, batch.temperature[micro.cells])[0]
        (logprobs * torch.linspace(-1, 1, len(logprobs))).sum().backward()
        gradient = torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])
        found.append((logprobs.detach(), gradient))
        torch.testing.assert_close(logprobs.detach(), batch.behaviour, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layers", [None, 1])
def test_values_are_those_of_whole_rows(make_policy, evidence: list[Evidence], layers: int | None) -> None:
    policy = make_policy(layers=3)
    prepare(policy)
    critic = Critic(policy, layers=layers)
    torch.nn.init.normal_(critic.head.weight)
    found = []
    for batch in batches(evidence):
        values, after = torch.zeros(batch.chain.tokens), torch.zeros(len(batch.evidence))
        for micro in batch.micro_batches:
            values[micro.cells], ends = critic.values(micro, critic.features(micro))
            after[micro.closes[micro.closes >= 0]] = ends[micro.closes >= 0]
        found.append((values, after))
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_a_whole_step_ends_at_the_same_weights(make_policy, evidence: list[Evidence]) -> None:
    found = []
    for batch in batches(evidence):
        policy = make_policy(layers=2)
        prepare(policy)
        learner = Learner(policy, LearnerConfig(critic_layers=1, policy_learning_rate=1e-3))
        learner.step(batch)
        found.append(torch.cat([parameter.detach().flatten() for parameter in policy.parameters()]))
    torch.testing.assert_close(found[0], found[1], rtol=1e-3, atol=1e-5)


def test_what_is_computed_is_counted_once_and_bounded(evidence: list[Evidence]) -> None:
    shared, alone = batches(evidence)
    assert sum(micro.computed for micro in shared.micro_batches) < sum(micro.computed for micro in alone.micro_batches)
    assert shared.micro_batches[0].tokens == sum(len(item.rows[0]) for item in evidence[:3])
    limit = shared.micro_batches[0].computed - 1
    smaller = Batch.of(evidence, micro_batch_tokens=limit)
    assert all(micro.computed <= limit for micro in smaller.micro_batches)


def test_a_row_whose_prompt_is_one_token_shares_nothing(policy, sample) -> None:
    drawn = [judge(sample(policy, seed=seed, turns=1, prompt=[7]), EvidenceRules(), version=0) for seed in range(2)]
    batch = Batch.of([one for one in drawn if isinstance(one, Evidence)], micro_batch_tokens=1000)
    assert [dataclasses.astuple(micro)[-1] for micro in batch.micro_batches] == [0]
