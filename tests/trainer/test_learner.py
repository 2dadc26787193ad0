"""One step: the same for any split into micro-batches, in the order of the paper, refused where it is not finite."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from trainer.batch import Batch
from trainer.config import EvidenceRules, LearnerConfig
from trainer.errors import DivergenceError
from trainer.evidence import Evidence, judge
from trainer.learner import Learner
from trainer.models import prepare

FAST = {"policy_learning_rate": 1e-3, "value_learning_rate": 1e-3, "value_head_learning_rate": 1e-2}


def make_batch(policy, sample, limit: int, count: int = 4, **values) -> Batch:
    evidence = [
        judge(
            sample(policy, seed=seed, turns=1 + seed, reward=float(seed % 2), compact_at=2, **values),
            EvidenceRules(),
            version=0,
        )
        for seed in range(count)
    ]
    return Batch.of([item for item in evidence if isinstance(item, Evidence)], micro_batch_tokens=limit)


def learner_of(make_policy, **config) -> Learner:
    policy = make_policy()
    prepare(policy)
    return Learner(policy, LearnerConfig(**(FAST | config)))


@pytest.mark.parametrize("config", [{}, {"critic_layers": 1}, {"credit": "reinforce", "objective": "ppo"}])
def test_a_step_is_the_same_for_any_micro_batch_size(make_policy, policy, sample, config: dict) -> None:
    """Given one batch, when it is split in pieces of one row or not at all, then weights after the step agree."""
    after = []
    for limit in (1, 100_000):
        learner = learner_of(make_policy, **config)
        metrics = [learner.step(make_batch(policy, sample, limit)) for _ in range(2)][-1]
        after.append((torch.cat([p.detach().flatten() for p in learner.policy.parameters()]), metrics))
    for weights, metrics in after[1:]:
        torch.testing.assert_close(weights, after[0][0], rtol=1e-3, atol=2e-5)
        for name in ("policy_loss", "kept_fraction", "policy_gradient_norm"):
            assert metrics[name] == pytest.approx(after[0][1][name], rel=1e-3, abs=1e-5)


def test_on_policy_the_first_ratios_are_one(make_policy, policy, sample) -> None:
    metrics = learner_of(make_policy).step(make_batch(policy, sample, 1000))
    assert metrics["kept_fraction"] == 1.0
    assert metrics["ratio_mean"] == pytest.approx(1.0, abs=1e-3)
    assert metrics["logprob_gap"] < 1e-3
    assert metrics["effective_sample_size"] == pytest.approx(1.0, abs=1e-4)


def test_the_critic_learns_to_tell_success_from_failure(make_policy, policy, sample) -> None:
    learner = learner_of(make_policy)
    batch = make_batch(policy, sample, 1000)
    metrics = learner.warm_up(batch, 60)
    assert metrics["value_loss"] < 0.2 * metrics["value_loss_first"]
    assert metrics["explained_variance"] > 0.8
    assert learner.value is not None
    assert learner.value.warmup_done == 60


def test_an_update_raises_what_succeeded_and_lowers_what_failed(make_policy, policy, sample) -> None:
    learner = learner_of(make_policy, credit="reinforce")
    batch = make_batch(policy, sample, 1000)
    learner.step(batch)
    ratios = learner_ratios(learner, batch)
    succeeded = batch.chain.spread(batch.rewards) > 0
    assert ratios[succeeded].mean() > 1 > ratios[~succeeded].mean()


def learner_ratios(learner: Learner, batch: Batch) -> torch.Tensor:
    from trainer.models import action_logprobs

    logprobs = torch.zeros(batch.chain.tokens)
    for micro in batch.micro_batches:
        with torch.no_grad():
            logprobs[micro.cells], _ = action_logprobs(learner.policy, micro, batch.temperature[micro.cells])
    return (logprobs - batch.behaviour).exp()


def test_a_cut_episode_bootstraps_and_an_ended_one_does_not(make_policy, policy, sample) -> None:
    from agentgym.store.records import Termination

    for termination, truncated in ((Termination.MAX_STEPS, True), (Termination.SUBMITTED, False)):
        learner = learner_of(make_policy)
        assert learner.value is not None
        critic = learner.value.critic
        torch.nn.init.constant_(critic.head.bias, 0.5)
        batch = make_batch(policy, sample, 1000, termination=termination)
        _, bootstrap = learner.value.values(batch)
        assert bootstrap.tolist() == pytest.approx([0.5 if truncated else 0.0] * 4)


def test_attention_of_the_critic_never_moves(make_policy, policy, sample) -> None:
    learner = learner_of(make_policy)
    assert learner.value is not None
    frozen = {n: p.clone() for n, p in learner.value.critic.named_parameters() if "self_attn" in n}
    learner.step(make_batch(policy, sample, 1000))
    now = dict(learner.value.critic.named_parameters())
    assert all(torch.equal(now[name], before) for name, before in frozen.items())
    assert any(
        not torch.equal(p, q) for p, q in zip(learner.policy.parameters(), make_policy().parameters(), strict=True)
    )


def test_a_step_that_is_not_finite_touches_no_weight(make_policy, policy, sample) -> None:
    learner = learner_of(make_policy, credit="reinforce")
    batch = make_batch(policy, sample, 1000)
    batch.rewards[0] = float("nan")
    before = [p.clone() for p in learner.policy.parameters()]
    with pytest.raises(DivergenceError, match="no step taken"):
        learner.step(batch)
    assert all(torch.equal(p, q) for p, q in zip(learner.policy.parameters(), before, strict=True))
    assert learner.version == 0


def test_several_updates_per_batch_move_on_from_the_proximal_policy(make_policy, policy, sample) -> None:
    batch = make_batch(policy, sample, 1000)
    metrics = learner_of(make_policy, credit="reinforce", objective="decoupled-ppo", policy_updates=3).step(batch)
    assert metrics["ratio_max"] > 1.001
    assert metrics["version"] == 1


def test_a_reference_kl_in_the_loss_pulls_back_to_the_reference(make_policy, policy, sample, policy_dir) -> None:
    """Given rewards without a signal, when only the KL acts, then a policy that left its reference returns to it."""
    learner = learner_of(make_policy, credit="reinforce", reference=policy_dir, reference_kl=1.0)
    with torch.no_grad():
        for parameter in learner.policy.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    found = []
    for _ in range(6):
        evidence = [
            judge(sample(learner.policy, seed=seed, version=learner.version), EvidenceRules(), version=learner.version)
            for seed in range(8)
        ]
        batch = Batch.of([item for item in evidence if isinstance(item, Evidence)], micro_batch_tokens=1000)
        found.append(learner.step(batch)["reference_kl"])
    assert found[-1] < 0.8 * found[0]


def test_a_reference_kl_in_the_reward_acts_at_each_token_beside_the_verdict(
    make_policy, policy, sample, policy_dir
) -> None:
    learner = learner_of(make_policy, reference=policy_dir, reference_kl=0.5, reference_kl_in="reward")
    batch = make_batch(policy, sample, 1000)
    reference = batch.behaviour - 0.2
    rewards = learner._token_rewards(batch, reference)
    expected = torch.full_like(rewards, -0.1)
    expected[batch.chain.last] += batch.rewards
    torch.testing.assert_close(rewards, expected)
    assert "reference_kl" in learner.step(batch)


def test_a_verdict_is_never_a_reward_on_an_observation(make_policy, policy, sample) -> None:
    """Given an episode whose last tokens are an observation, then its reward stands on its last action token."""
    from dataclasses import replace

    from trainer.learner import terminal_rewards

    trajectory = sample(policy, turns=2)
    last = trajectory.calls[-1]
    seen = np.concatenate([last.prompt_token_ids, last.generation_token_ids, np.array([5, 6, 7], np.int32)])
    silent = replace(
        last, prompt_token_ids=seen, generation_token_ids=seen[:0], logprobs=last.logprobs[:0], policy_versions=()
    )
    evidence = judge(replace(trajectory, calls=(*trajectory.calls, silent)), EvidenceRules(), version=0)
    assert isinstance(evidence, Evidence)
    batch = Batch.of([evidence], micro_batch_tokens=1000)
    (row,) = evidence.rows
    assert int(row.positions[-1]) == len(row) - 4, "three observed tokens follow the last action"
    assert terminal_rewards(batch).tolist() == [0.0] * (batch.chain.tokens - 1) + [1.0]


def test_a_batch_that_few_trajectories_dominate_takes_a_smaller_step(make_policy, policy, sample) -> None:
    """Given stale evidence, when the step is scaled by its effective sample size ρ, then AdamW's step is √ρ of the whole."""
    batch = make_batch(policy, sample, 1000)
    batch.behaviour[batch.chain.trajectory > 0] += 0.5  # the first trajectory is the likeliest by far
    moved = {}
    for scaling in ("none", "effective-sample-size"):
        learner = learner_of(make_policy, credit="reinforce", objective="tis", step_scaling=scaling)
        before = torch.cat([p.detach().flatten().clone() for p in learner.policy.parameters()])
        metrics = learner.step(batch)
        moved[scaling] = torch.cat([p.detach().flatten() for p in learner.policy.parameters()]) - before
        assert [group["lr"] for group in learner.optimizer.param_groups] == [1e-3]
    rho = metrics["trajectory_effective_sample_size"]
    assert 0.24 < rho < 0.5
    torch.testing.assert_close(moved["effective-sample-size"], moved["none"] * rho**0.5, rtol=1e-3, atol=1e-7)


def test_the_learning_rate_grows_and_falls_with_the_version(make_policy, policy, sample) -> None:
    """Each update's rate follows from how many the weights have seen, so a resumed run goes on where it was."""
    batch = make_batch(policy, sample, 1000)
    schedule = {"policy_warmup_steps": 3, "policy_decay_steps": 8}
    learner = learner_of(make_policy, credit="reinforce", objective="tis", policy_learning_rate=8e-3, **schedule)
    rates = []
    for version in (0, 1, 2, 4, 7, 8, 9):
        learner.version = version
        before = torch.cat([p.detach().flatten().clone() for p in learner.policy.parameters()])
        rates.append(learner.step(batch)["policy_learning_rate"])
        moved = (torch.cat([p.detach().flatten() for p in learner.policy.parameters()]) - before).abs().max()
        assert moved == 0 if rates[-1] == 0 else moved > 0
    assert rates == pytest.approx([8e-3 / 3, 16e-3 / 3, 6e-3, 4e-3, 1e-3, 0, 0])
    assert learner_of(make_policy, credit="reinforce", objective="tis").step(batch)["policy_learning_rate"] == 1e-3


def test_the_effective_sample_size_counts_trajectories() -> None:
    from trainer.chain import Chain
    from trainer.diagnostics import effective_sample_size, trajectory_weights

    log_ratio = torch.tensor([0.5, -0.5, 0.0, 4.0, 4.0, -1.0, 0.0])
    weights = trajectory_weights(log_ratio, Chain(torch.tensor([3, 2, 2])))
    torch.testing.assert_close(weights, torch.tensor([1.0, 8.0, math.e**-1], dtype=torch.float64))
    expected = (1 + 8 + math.e**-1) ** 2 / (3 * (1 + 64 + math.e**-2))
    assert effective_sample_size(weights) == pytest.approx(expected)
    assert effective_sample_size(torch.ones(5)) == pytest.approx(1.0)
