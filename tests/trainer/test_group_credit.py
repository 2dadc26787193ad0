"""Advantages from groups and baselines: against verl, by hand, and where there is no signal."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from trainer.chain import Chain
from trainer.config import LearnerConfig
from trainer.credit import CREDITS, CreditInput
from trainer.credit.dapo import soft_overlong_punishment
from trainer.errors import TrainConfigError


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
