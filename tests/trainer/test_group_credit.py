"""Advantages from groups and baselines: against verl and OpenRLHF, by hand, and where there is no signal."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from trainer.chain import Chain
from trainer.config import LearnerConfig
from trainer.credit import CREDITS, CreditInput
from trainer.credit.dapo import soft_overlong_punishment
from trainer.credit.vpo import set_reward
from trainer.errors import TrainConfigError
from trainer.objectives import OBJECTIVES
from trainer.objectives.kl import kl_estimate


def given(rewards: list[float], groups: str, lengths: list[int] | None = None, **more) -> CreditInput:
    chain = Chain(torch.tensor(lengths or [2] * len(rewards)))
    verdicts = torch.tensor(rewards, dtype=torch.float32)
    token_rewards = torch.zeros(chain.tokens)
    token_rewards[chain.last] = verdicts
    return CreditInput(chain, token_rewards, verdicts, tuple(groups), **more)


def per_trajectory(name: str, item: CreditInput, **options) -> list[float]:
    advantages = CREDITS.build(name, options).advantages(item)
    assert torch.equal(advantages, item.chain.spread(advantages[item.chain.last])), "one number per trajectory"
    return advantages[item.chain.last].tolist()


@pytest.mark.parametrize(
    ("name", "function", "settings"),
    [
        ("grpo", "compute_grpo_outcome_advantage", {"norm_adv_by_std_in_grpo": True}),
        ("dr-grpo", "compute_grpo_outcome_advantage", {"norm_adv_by_std_in_grpo": False}),
        ("rloo", "compute_rloo_outcome_advantage", {}),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_group_advantages_are_verls(verl, random_chain, name: str, function: str, settings: dict, seed: int) -> None:
    mask, lengths = random_chain(seed, rows=9)
    groups = "aaabbbbcc"
    rewards = torch.rand(9, generator=torch.Generator().manual_seed(seed))
    token_rewards = torch.zeros(mask.shape)
    for row in range(9):
        token_rewards[row, mask[row].nonzero()[-1]] = rewards[row]
    expected, _ = getattr(verl, function)(token_rewards, mask.float(), np.array(list(groups)), **settings)
    ours = CREDITS.build(name).advantages(given(rewards.tolist(), groups, lengths.tolist()))
    torch.testing.assert_close(ours, expected[mask], rtol=1e-5, atol=1e-6)


def test_reinforce_plus_plus_is_verls(verl, random_chain) -> None:
    mask, lengths = random_chain(4)
    rewards = torch.rand(5, generator=torch.Generator().manual_seed(0))
    token_rewards = torch.zeros(mask.shape)
    for row in range(5):
        token_rewards[row, mask[row].nonzero()[-1]] = rewards[row]
    expected, _ = verl.compute_reinforce_plus_plus_outcome_advantage(
        token_rewards, mask.float(), config=SimpleNamespace(gamma=1.0)
    )
    ours = CREDITS.build("reinforce++").advantages(given(rewards.tolist(), "abcde", lengths.tolist()))
    torch.testing.assert_close(ours, expected[mask], rtol=1e-4, atol=1e-4)


def openrlhf_advantages(
    openrlhf: SimpleNamespace,
    estimator: str,
    mask: torch.Tensor,
    rewards: torch.Tensor,
    kl: torch.Tensor | None = None,
    beta: float = 0.0,
) -> SimpleNamespace:
    """`RemoteExperienceMaker.compute_advantages_and_returns` on one batch in groups of four; advantages, returns: [B, L]."""
    maker = openrlhf.experience_maker.RemoteExperienceMaker
    args = SimpleNamespace(
        algo=SimpleNamespace(advantage=SimpleNamespace(estimator=estimator, gamma=1.0, no_std_norm=False)),
        rollout=SimpleNamespace(n_samples_per_prompt=4),
        reward=SimpleNamespace(clip_range=None),
    )
    itself = SimpleNamespace(
        strategy=SimpleNamespace(args=args), advantage_estimator=estimator, kl_ctl=SimpleNamespace(value=beta)
    )
    itself.get_cumulative_returns = maker.get_cumulative_returns.__get__(itself)
    batch = SimpleNamespace(
        rewards=rewards,
        index=list(range(len(rewards))),
        action_mask=mask.long(),
        kl=torch.zeros(mask.shape) if kl is None else kl,
        info={},
    )
    return maker.compute_advantages_and_returns(itself, [batch])[0]


OPENRLHF = {"rloo": "rloo", "dr-grpo": "dr_grpo", "grpo": "group_norm", "reinforce": "flash_reinforce"}


@pytest.mark.parametrize("name", OPENRLHF)
@pytest.mark.parametrize("seed", range(3))
def test_advantages_are_openrlhfs(openrlhf, random_chain, name: str, seed: int) -> None:
    mask, lengths = random_chain(seed, rows=8)
    rewards = torch.rand(8, generator=torch.Generator().manual_seed(seed))
    if name == "grpo":
        rewards = rewards / 1000  # so small that ε shows
    expected = openrlhf_advantages(openrlhf, OPENRLHF[name], mask, rewards).advantages
    if name == "grpo":  # the same deviation, with 1e-9 beside it where ours has 1e-6
        deviation = rewards.view(2, 4).std(1).repeat_interleave(4)[:, None]
        expected = expected * (deviation + 1e-9) / (deviation + 1e-6)
    ours = CREDITS.build(name).advantages(given(rewards.tolist(), "aaaabbbb", lengths.tolist()))
    torch.testing.assert_close(ours, expected[mask], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("beta", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_reinforce_plus_plus_is_openrlhfs_with_the_kl_in_the_reward(
    openrlhf, random_chain, seed: int, beta: float
) -> None:
    """It divides by the biased deviation of the returns, ours by the unbiased one."""
    mask, lengths = random_chain(seed, rows=8)
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.rand(8, generator=generator)
    policy, reference = -torch.rand(2, *mask.shape, generator=generator) * 3
    kl = openrlhf.utils.compute_approx_kl(policy, reference)
    theirs = openrlhf_advantages(openrlhf, "reinforce", mask, rewards, kl, beta)
    returns = theirs.returns[mask]
    expected = theirs.advantages[mask] * returns.std(correction=0) / (returns.std(correction=1) + 1e-6)
    item = given(rewards.tolist(), "abcdefgh", lengths.tolist())
    token_rewards = item.token_rewards - beta * kl_estimate(policy[mask], reference[mask], "k1")
    ours = CREDITS.build("reinforce++").advantages(replace(item, token_rewards=token_rewards))
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


def test_the_seeds_groups() -> None:
    """(1,1,0,0) → ±0.5 around its mean; (1,0,0,0): the one success carries 0.75."""
    assert per_trajectory("dr-grpo", given([1, 1, 0, 0], "aaaa")) == [0.5, 0.5, -0.5, -0.5]
    assert per_trajectory("dr-grpo", given([1, 0, 0, 0], "aaaa")) == [0.75, -0.25, -0.25, -0.25]
    half, quarter = np.std([1, 1, 0, 0], ddof=1), np.std([1, 0, 0, 0], ddof=1)
    assert per_trajectory("grpo", given([1, 1, 0, 0], "aaaa")) == pytest.approx(
        [0.5 / half, 0.5 / half, -0.5 / half, -0.5 / half], rel=1e-5
    )
    assert per_trajectory("grpo", given([1, 0, 0, 0], "aaaa"))[0] == pytest.approx(0.75 / quarter, rel=1e-5)


@pytest.mark.parametrize("name", ["grpo", "dr-grpo", "rloo", "dapo"])
def test_a_group_of_one_says_so(name: str) -> None:
    with pytest.raises(TrainConfigError, match="1 of 2 groups hold one rollout"):
        CREDITS.build(name).advantages(given([1.0, 0.0, 1.0], "aab"))


def test_a_uniform_group_gives_zero_not_noise() -> None:
    assert per_trajectory("grpo", given([1, 1, 1], "aaa")) == [0, 0, 0]


def test_soft_overlong_punishment_is_dapos_equation() -> None:
    lengths = torch.tensor([0, 16384, 18432, 20480, 30000])
    assert soft_overlong_punishment(lengths, 20480, 4096).tolist() == [0.0, 0.0, -0.5, -1.0, -1.0]


def test_soft_overlong_punishment_is_trls(trl) -> None:
    lengths = torch.arange(131)
    expected = import_module("trl.rewards").get_soft_overlong_punishment(100, 20)([[0] * length for length in lengths])
    assert soft_overlong_punishment(lengths, 100, 20).tolist() == pytest.approx(expected)


def test_soft_overlong_punishment_is_openrlhfs(openrlhf) -> None:
    lengths = torch.arange(131)
    batch = SimpleNamespace(response_length=lengths, rewards=torch.zeros(131))
    openrlhf.length_penalty.apply_overlong_penalty([batch], 100, 20)
    torch.testing.assert_close(soft_overlong_punishment(lengths, 100, 20), batch.rewards)


def test_reinforce_subtracts_the_batch_mean_or_what_it_is_told() -> None:
    assert per_trajectory("reinforce", given([1, 0], "ab")) == [0.5, -0.5]
    assert per_trajectory("reinforce", given([1, 0], "ab"), baseline=0.0) == [1, 0]


def test_evpo_trusts_the_critic_only_while_it_explains_the_returns() -> None:
    rewards = [1.0, 0.0]
    good = given(rewards, "ab", values=torch.tensor([0.9, 1.0, 0.1, 0.0]), bootstrap=torch.zeros(2))
    bad = given(rewards, "ab", values=torch.tensor([0.0, 0.1, 1.0, 0.9]), bootstrap=torch.zeros(2))
    evpo = CREDITS.build("evpo")
    torch.testing.assert_close(evpo.advantages(good), CREDITS.build("sao-gae").advantages(good))
    assert evpo.advantages(bad).tolist() == [0.5, 0.5, -0.5, -0.5]


def test_a_kl_that_would_act_nowhere_is_a_config_error() -> None:
    with pytest.raises(TrainConfigError, match="reads verdicts only"):
        LearnerConfig(credit="grpo", reference="ref", reference_kl=0.01, reference_kl_in="reward")  # pyright: ignore
    with pytest.raises(TrainConfigError, match="without a reference"):
        LearnerConfig(reference_kl=0.01)


def test_drpos_six_answers_keep_the_sign_of_correctness() -> None:
    """The seed's group: three right answers of growing length, three wrong. GRPO on a mixed reward blames the third right one."""
    mixed = per_trajectory("dr-grpo", given([0.73, 0.60, 0.20, 0, 0, 0], "aaaaaa"))
    assert mixed[2] == pytest.approx(-0.055)

    lengths = [20, 60, 90, 50, 50, 50]
    item = given([1, 1, 1, 0, 0, 0], "aaaaaa", lengths)
    scores = torch.tensor([-1.0, -1.0, -1.0, -0.5, -1.0, -2.0])
    item = CreditInput(**{**vars_of(item), "logprobs": item.chain.spread(scores)})
    coefficients = per_trajectory("drpo", item, max_tokens=100, lam=0.5, tau=1.0)
    weights = np.exp((1 - np.array([0.2, 0.6, 0.9])) / 0.5)
    softmax = np.exp([-0.5, -1.0, -2.0]) / np.exp([-0.5, -1.0, -2.0]).sum()
    expected = [*(6 * weights / weights.sum()), *(-6 * softmax)]
    assert coefficients == pytest.approx(expected, rel=1e-5)
    assert coefficients[0] > coefficients[1] > coefficients[2] > 0


def vars_of(item: CreditInput) -> dict:
    return {name: getattr(item, name) for name in item.__slots__}


@pytest.mark.parametrize("seed", range(2))
def test_drpos_gradient_is_a_finite_difference_of_its_objective(seed: int) -> None:
    """Given J written out in float64, when the credit weighs ∇s, then it is ∂J/∂(log π)."""
    lengths = torch.tensor([3, 5, 2, 4])
    chain, positive = Chain(lengths), torch.tensor([True, True, False, False])
    generator = torch.Generator().manual_seed(seed)
    logprobs = (-torch.rand(chain.tokens, generator=generator).double()).requires_grad_()
    tau, lam, budget = 0.7, 0.4, 10

    def objective(current: torch.Tensor) -> torch.Tensor:
        s = chain.mean(current)
        w = ((1 - lengths[positive] / budget) / lam).exp().double()
        return (w * (s[positive] - tau * (s[~positive] / tau).logsumexp(0))).sum() / w.sum()

    assert torch.autograd.gradcheck(objective, logprobs)
    (expected,) = torch.autograd.grad(objective(logprobs), logprobs)
    rewards = positive.double()
    item = CreditInput(chain, torch.zeros(chain.tokens).double(), rewards, tuple("gggg"), logprobs=logprobs.detach())
    advantages = CREDITS.build("drpo", {"tau": tau, "lam": lam, "max_tokens": budget}).advantages(item)
    weights = OBJECTIVES.build("drpo").weights(chain, torch.zeros(4, dtype=torch.bool)).double()
    torch.testing.assert_close(advantages * weights, expected, rtol=1e-6, atol=1e-9)


def test_vpo_prefers_the_set_that_serves_both_tests() -> None:
    """The seed's two-test example: (1,0) with (0,1) beats two answers at (0.6,0.6), and a scalar reward says otherwise."""
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6], [0.6, 0.6]])
    item = given(vectors.mean(1).tolist(), "aaaa", reward_vectors=vectors)
    assert per_trajectory("dr-grpo", item)[0] < 0
    advantages = per_trajectory("vpo", item, set_size=2)
    assert advantages[0] == advantages[1] > 0 > advantages[2] == advantages[3]


def test_the_set_reward_is_the_mean_of_the_best_answer_per_preference() -> None:
    weights = torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.5, 0.5]])
    diverse, uniform = torch.eye(2), torch.full((2, 2), 0.6)
    assert set_reward(diverse, weights).item() == pytest.approx((0.9 + 0.9 + 0.5) / 3)
    assert set_reward(uniform, weights).item() == pytest.approx(0.6)


def test_vpo_needs_whole_sets() -> None:
    item = given([1, 0, 1], "aaa", reward_vectors=torch.eye(3))
    with pytest.raises(TrainConfigError, match="not two or more whole sets of 2"):
        CREDITS.build("vpo", {"set_size": 2}).advantages(item)
