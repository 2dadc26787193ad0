"""What several prompts begin with is computed once, and nothing else changes: not a value, not a gradient."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from trainer.batch import COMMON_TOKENS, Batch, MicroBatch, _parts
from trainer.config import EvidenceRules, LearnerConfig
from trainer.critic import Critic
from trainer.evidence import Evidence, Row, judge
from trainer.learner import Learner
from trainer.models import action_logprobs, action_loss, prepare

PROMPT = list(range(1, 25))
OTHER = [*PROMPT[:12], 40, 41, 42]
"""The same system text and tools, as it were, before another task."""


@pytest.fixture
def evidence(policy, sample) -> list[Evidence]:
    """Three rollouts of one prompt, of different length, one of another that begins like it, and one that shares nothing; the
    second prompt of a compacted one is its own."""
    drawn = [sample(policy, seed=seed, turns=1 + seed, prompt=PROMPT, reward=float(seed == 1)) for seed in range(2)]
    drawn += [sample(policy, seed=2, turns=3, prompt=PROMPT, compact_at=1), sample(policy, seed=3, turns=2)]
    drawn += [sample(policy, seed=4, turns=2, prompt=OTHER)]
    return [found for one in drawn if isinstance(found := judge(one, EvidenceRules(), version=0), Evidence)]


def batches(evidence: list[Evidence]) -> tuple[Batch, Batch]:
    """With the prompts shared, and the same with each row alone."""
    shared, alone = (Batch.of(evidence, micro_batch_tokens=limit) for limit in (10_000, 1))
    (together,) = shared.micro_batches
    assert sum(parent >= 0 for parent in together.follows) == 5  # the rest of PROMPT, its three rows, and OTHER's
    assert not any(parent >= 0 for micro in alone.micro_batches for parent in micro.follows)
    return shared, alone


def test_logprobs_are_those_that_were_sampled(policy, evidence: list[Evidence]) -> None:
    prepare(policy)
    for batch in batches(evidence):
        logprobs = torch.zeros(batch.chain.tokens)
        for micro in batch.micro_batches:
            logprobs[micro.cells] = action_logprobs(policy, micro, batch.temperature[micro.cells])[0]
        torch.testing.assert_close(logprobs, batch.behaviour, rtol=1e-4, atol=1e-4)


def test_gradients_are_those_of_whole_rows(policy, evidence: list[Evidence]) -> None:
    prepare(policy)
    found = []
    for batch in batches(evidence):
        policy.zero_grad()
        weights = torch.linspace(-1, 1, batch.chain.tokens)
        for micro in batch.micro_batches:
            weight, temperature = weights[micro.cells], batch.temperature[micro.cells]
            action_loss(
                policy, micro, temperature, lambda logprob, _, part, weight=weight: (weight[part] * logprob).sum()
            )[0].backward()
        found.append(torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None]))
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layers", [None, 1])
def test_values_are_those_of_whole_rows(make_policy, evidence: list[Evidence], layers: int | None) -> None:
    policy = make_policy(layers=3)
    prepare(policy)
    critic = Critic(policy, LearnerConfig(critic_layers=layers))
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


def test_every_bar_ends_at_its_total(make_policy, evidence: list[Evidence]) -> None:
    """Given a prompt that is computed once, then it is once in the total too."""
    policy = make_policy(layers=2)
    prepare(policy)
    heard: dict[str, tuple[int, int]] = {}
    learner = Learner(policy, LearnerConfig(critic_layers=1))
    learner.step(batches(evidence)[0], lambda stage, done, total: heard.update({stage: (done, total)}))
    assert {"policy", "critic"} <= heard.keys()
    assert all(done == total for done, total in heard.values()), heard


def test_what_is_shared_is_counted_once_and_bounded(evidence: list[Evidence]) -> None:
    """Given room for all but one token, then the companions are parted, and each part has its own copy of the prompt."""
    shared, alone = batches(evidence)
    size, whole = (sum(micro.tokens for micro in batch.micro_batches) for batch in (shared, alone))
    assert size == whole - 2 * (len(PROMPT) - 1) - 12
    smaller = Batch.of(evidence, micro_batch_tokens=size - 1)
    assert all(micro.tokens < size for micro in smaller.micro_batches)


def test_a_prompt_of_one_token_is_not_shared(policy, sample) -> None:
    drawn = [judge(sample(policy, seed=seed, turns=1, prompt=[7]), EvidenceRules(), version=0) for seed in range(2)]
    batch = Batch.of([one for one in drawn if isinstance(one, Evidence)], micro_batch_tokens=1000)
    assert [micro.follows for micro in batch.micro_batches] == [(-1, -1)]


@given(
    st.lists(
        st.tuples(st.lists(st.integers(1, 2), min_size=1, max_size=9), st.integers(1, 3)), min_size=1, max_size=12
    ),
    st.booleans(),
    st.integers(1, 60),
)
def test_every_row_is_found_again_in_the_tree(
    drawn: list[tuple[list[int], int]], begin_alike: bool, limit: int
) -> None:
    """Given any prompts, then what lies before a row is that row; where all begin alike, each beginning lies there once."""
    beginning = list(range(10, 10 + COMMON_TOKENS)) if begin_alike else []
    rows = [row([*beginning, *prompt], actions) for prompt, actions in drawn]
    parts = _parts(rows, limit)
    assert sorted(index for part in parts for index in part) == list(range(len(rows)))
    for part in parts:
        members = [rows[index] for index in part]
        micro = MicroBatch.packed(members, [0] * len(part), [0] * len(part))
        assert len(part) == 1 or micro.tokens <= limit
        for member, end in zip(members, micro.ends.tolist(), strict=True):
            assert lies_before(micro, end).equal(member.token_ids)
        if begin_alike:
            contexts = {tuple(m.prompt[:n].tolist()) for m in members for n in range(1, len(m.prompt))}
            assert micro.tokens == len(contexts) + sum(len(m) - len(m.prompt) + 1 for m in members)


def row(prompt: list[int], actions: int) -> Row:
    """With actions of their own, so that only the prompt can be in common."""
    nothing, first = torch.zeros(actions), len(prompt)
    tokens = torch.tensor([*prompt, *range(100, 100 + actions)])
    return Row(tokens, torch.arange(first, first + actions), nothing, nothing, nothing, nothing)


def lies_before(micro: MicroBatch, end: int) -> Tensor:
    """The tokens that the one at `end` sees, itself included, each at its position."""
    ends = torch.tensor(micro.lengths).cumsum(0)
    segment, found = int((ends > end).nonzero()[0]), torch.zeros(0, dtype=torch.int64)
    positions = found
    while segment >= 0:
        cells = slice(int(ends[segment]) - micro.lengths[segment], min(int(ends[segment]), end + 1))
        found, positions = (
            torch.cat([packed[cells], later])
            for packed, later in ((micro.token_ids, found), (micro.positions, positions))
        )
        segment = micro.follows[segment]
    assert positions.equal(torch.arange(len(found)))
    return found
