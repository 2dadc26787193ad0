"""Skip-observation GAE against torchrl on the compressed chain, verl on the masked one, and by hand. λ < 1
throughout.
"""

from __future__ import annotations

import pytest
import torch

from trainer.chain import Chain
from trainer.credit import CREDITS, CreditInput
from trainer.credit.gae import discounted_returns, length_adaptive_lambda, skip_observation_gae
from trainer.credit.scan import BLOCK, discounted_suffix_sum
from trainer.errors import TrainConfigError


def given(lengths: list[int], seed: int = 0, truncated: bool = True) -> CreditInput:
    generator = torch.Generator().manual_seed(seed)
    chain = Chain(torch.tensor(lengths))
    rewards = torch.rand(len(lengths), generator=generator, dtype=torch.float64)
    token_rewards = torch.zeros(chain.tokens, dtype=torch.float64)
    token_rewards[chain.last] = rewards
    return CreditInput(
        chain=chain,
        token_rewards=token_rewards,
        rewards=rewards,
        groups=tuple("g" * len(lengths)),
        values=torch.randn(chain.tokens, generator=generator, dtype=torch.float64),
        bootstrap=torch.randn(len(lengths), generator=generator, dtype=torch.float64) * float(truncated),
    )


def by_hand(item: CreditInput, gamma: float, lam: torch.Tensor) -> torch.Tensor:
    assert item.values is not None
    assert item.bootstrap is not None
    advantages = torch.zeros_like(item.values)
    for index, length in enumerate(item.chain.lengths.tolist()):
        start = int(item.chain.starts[index])
        following, carried = item.bootstrap[index], torch.tensor(0.0, dtype=torch.float64)
        for t in reversed(range(start, start + length)):
            delta = item.token_rewards[t] + gamma * following - item.values[t]
            carried = delta + gamma * lam[index] * carried
            advantages[t], following = carried, item.values[t]
    return advantages


@pytest.mark.parametrize("lengths", [[1], [1, 7, 3], [BLOCK, BLOCK + 1, 2 * BLOCK - 1], [5, 700, 1, 130]])
@pytest.mark.parametrize("truncated", [True, False])
def test_it_is_the_recursion_of_the_formula(lengths: list[int], truncated: bool) -> None:
    item = given(lengths, truncated=truncated)
    lam = torch.linspace(0.3, 0.99, len(lengths), dtype=torch.float64)
    ours = skip_observation_gae(item.token_rewards, item.values, item.bootstrap, item.chain, gamma=0.97, lam=lam)
    torch.testing.assert_close(ours, by_hand(item, 0.97, lam), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("lam", [0.0, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("truncated", [True, False])
def test_it_agrees_with_torchrl_on_the_compressed_chain(lam: float, truncated: bool) -> None:
    oracle = pytest.importorskip(
        "torchrl.objectives.value.functional", reason="oracle torchrl is not installed"
    ).generalized_advantage_estimate
    item = given([33, 1, 128, 65], seed=3, truncated=truncated)
    assert item.values is not None
    assert item.bootstrap is not None
    expected = []
    for index, length in enumerate(item.chain.lengths.tolist()):
        part = slice(int(item.chain.starts[index]), int(item.chain.starts[index]) + length)
        values = item.values[part][:, None]
        following = torch.cat([values[1:], item.bootstrap[index].view(1, 1)])
        done = torch.zeros(length, 1, dtype=torch.bool)
        done[-1] = True
        terminated = done & (not truncated)
        advantage, _ = oracle(0.99, lam, values, following, item.token_rewards[part][:, None], done, terminated)
        expected.append(advantage[:, 0])
    ours = skip_observation_gae(
        item.token_rewards, item.values, item.bootstrap, item.chain, gamma=0.99, lam=torch.full((4,), lam)
    )
    torch.testing.assert_close(ours, torch.cat(expected), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lam", [0.6, 0.95])
def test_it_agrees_with_verl_on_interleaved_observations(verl, random_chain, seed: int, lam: float) -> None:
    """verl walks the padded sequence and skips observations; it whitens, so we compare its returns − values."""
    mask, lengths = random_chain(seed)
    chain = Chain(lengths)
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(mask.shape, generator=generator)
    rewards = torch.zeros(mask.shape)
    for row in range(len(mask)):
        rewards[row, mask[row].nonzero()[-1]] = torch.rand(1, generator=generator)
    _, returns = verl.compute_gae_advantage_return(rewards, values, mask.float(), 0.99, lam)
    ours = skip_observation_gae(
        rewards[mask], values[mask], torch.zeros(len(lengths)), chain, gamma=0.99, lam=torch.full((len(lengths),), lam)
    )
    torch.testing.assert_close(ours, (returns - values)[mask], rtol=1e-5, atol=1e-5)


def test_observation_length_changes_nothing_while_gamma_discounts_action_tokens() -> None:
    """Given two trajectories that differ only in what was observed, when λ < 1, then their chains are the same."""
    item = given([6])
    lam = torch.tensor([0.7])
    first = skip_observation_gae(item.token_rewards, item.values, item.bootstrap, item.chain, gamma=0.9, lam=lam)
    second = skip_observation_gae(
        item.token_rewards.clone(), item.values, item.bootstrap, Chain(torch.tensor([6])), gamma=0.9, lam=lam
    )
    assert torch.equal(first, second)


def test_the_seeds_transition_has_td_error_of_four_tenths() -> None:
    chain = Chain(torch.tensor([2]))
    advantages = skip_observation_gae(
        torch.zeros(2), torch.tensor([0.3, 0.7]), torch.zeros(1), chain, gamma=1.0, lam=torch.zeros(1)
    )
    assert advantages[0].item() == pytest.approx(0.4)


def test_returns_are_the_reward_where_the_episode_ended_and_go_on_where_it_was_cut() -> None:
    chain = Chain(torch.tensor([3, 2]))
    rewards = torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0])
    returns = discounted_returns(rewards, torch.tensor([0.0, 0.25]), chain, gamma=1.0)
    assert returns.tolist() == [1.0, 1.0, 1.0, 0.25, 0.25]


def test_lambda_follows_length_and_is_clipped() -> None:
    lengths = torch.tensor([1, 2, 100, 10_000])
    expected = [1 - 1 / 1.5, 1 - 1 / 3, 1 - 1 / 150, 1 - 1 / 15_000]
    assert length_adaptive_lambda(lengths, 1.5).tolist() == pytest.approx(expected)
    assert length_adaptive_lambda(torch.tensor([1]), 0.05).tolist() == [0.0]


def test_names_carry_their_defaults() -> None:
    chain = Chain(torch.tensor([10]))
    assert CREDITS.build("sao-gae").lam(chain).item() == pytest.approx(1 - 1 / 15)
    assert CREDITS.build("vapo-gae").lam(Chain(torch.tensor([40]))).item() == pytest.approx(0.5)
    assert CREDITS.build("gae").lam(chain).item() == 0.95


def test_two_sources_of_lambda_are_an_error() -> None:
    with pytest.raises(TrainConfigError, match="exactly one"):
        CREDITS.build("sao-gae", {"lam": 0.9})


def test_the_scan_handles_decay_zero_and_one() -> None:
    chain = Chain(torch.tensor([4, 3]))
    x = torch.arange(7, dtype=torch.float64)
    y = discounted_suffix_sum(x, torch.tensor([0.0, 1.0], dtype=torch.float64), chain)
    assert y.tolist() == [0, 1, 2, 3, 15, 11, 6]


def test_tiles_of_whole_trajectories_change_nothing(monkeypatch) -> None:
    from trainer.credit import gae

    item = given([5, 700, 1, 130, 64], seed=9)
    lam = torch.linspace(0.3, 0.99, 5, dtype=torch.float64)
    for tile in (1, 140, 10_000):
        monkeypatch.setattr(gae, "TILE", tile)
        ours = skip_observation_gae(item.token_rewards, item.values, item.bootstrap, item.chain, gamma=0.97, lam=lam)
        torch.testing.assert_close(ours, by_hand(item, 0.97, lam), rtol=1e-12, atol=1e-12)


def test_step_granularity_gives_each_action_one_advantage() -> None:
    """Given actions of 2, 1 and 3 tokens, then their values are those before their first tokens."""
    chain = Chain(torch.tensor([6, 2]))
    values = torch.tensor([0.1, 9.0, 0.4, 0.7, 9.0, 9.0, 0.2, 9.0], dtype=torch.float64)
    rewards = torch.zeros(8, dtype=torch.float64)
    rewards[chain.last] = 1.0
    item = CreditInput(
        chain=chain,
        token_rewards=rewards,
        rewards=torch.ones(2),
        groups=("a", "b"),
        values=values,
        bootstrap=torch.zeros(2),
        calls=torch.tensor([0, 0, 1, 2, 2, 2, 2, 2]),
    )
    ours = CREDITS.build("step-gae", {"alpha": None, "lam": 0.5}).advantages(item)
    third, second = 1 - 0.7, 0.7 - 0.4 + 0.5 * (1 - 0.7)
    first = 0.4 - 0.1 + 0.5 * second
    assert ours.tolist() == pytest.approx([first, first, second, third, third, third, 0.8, 0.8])


def test_whitened_advantages_are_verls() -> None:
    """A critic that is wrong by a constant changes nothing then: neither sign nor size."""
    torch_functional = pytest.importorskip(
        "verl.utils.torch_functional", reason="verl is not installed (make test does)"
    )
    item = given([1, 7, 3], truncated=False)
    raw = CREDITS.build("sao-gae", {}).advantages(item)
    ours = CREDITS.build("sao-gae", {"whiten": True}).advantages(item)
    theirs = torch_functional.masked_whiten(raw, torch.ones_like(raw))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    assert abs(float(ours.mean())) < 1e-12


def test_one_advantage_alone_is_whitened_to_nothing() -> None:
    assert CREDITS.build("sao-gae", {"whiten": True}).advantages(given([1])).tolist() == [0.0]
