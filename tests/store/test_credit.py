"""What a learner thought of each token: kept beside the trajectory, to three digits, and gone with it."""

from __future__ import annotations

import numpy as np
import pytest

from agentgym.store import CorruptError, TrajectoryFilter
from agentgym.store.credit import TokenCredit, decode_credit, encode_credit
from agentgym.store.retention import remove
from agentgym.store.schema import token_credit


def credit_of(count: int, *, critic: bool = True) -> TokenCredit:
    rng = np.random.default_rng(count)
    advantages, values = (rng.normal(size=count).astype(np.float32) for _ in range(2))
    ratios = np.exp(rng.normal(0, 0.01, count)).astype(np.float32)
    return TokenCredit(advantages, ratios, rng.random(count) > 0.1, values if critic else None)


@pytest.mark.parametrize("critic", [True, False])
@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_credit_comes_back_to_three_digits(count: int, critic: bool) -> None:
    given = credit_of(count, critic=critic)
    found = decode_credit(encode_credit(given))
    np.testing.assert_allclose(found.advantages, given.advantages, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(found.ratios, given.ratios, rtol=1e-3)
    assert found.kept.tolist() == given.kept.tolist()
    assert (found.values is None) is not critic


def test_what_half_precision_cannot_hold_is_its_largest_number() -> None:
    given = TokenCredit(
        np.array([1e9, -np.inf], np.float32), np.array([np.inf, 0], np.float32), np.array([True, False])
    )
    found = decode_credit(encode_credit(given))
    assert found.advantages.tolist() == [65504, -65504]
    assert found.ratios.tolist() == [65504, 0]


def test_an_update_taken_again_replaces_what_it_said_and_other_updates_stay(store, make_trajectory) -> None:
    store.add(make_trajectory(id="a"))
    store.put_credit("train", 1, 0, {"a": credit_of(3), "gone": credit_of(2)})
    store.put_credit("train", 2, 1, {"a": credit_of(4)})
    store.put_credit("train", 2, 1, {"a": credit_of(5)})
    assert [(one.step, one.version, len(one.credit.advantages)) for one in store.credit("a")] == [(2, 1, 5), (1, 0, 3)]
    assert store.credit("gone") == []


def test_credit_goes_with_its_trajectory(store, make_trajectory) -> None:
    store.add(make_trajectory(id="a"))
    store.put_credit("train", 1, 0, {"a": credit_of(3)})
    remove(store, TrajectoryFilter())
    store.add(make_trajectory(id="a"))
    assert store.credit("a") == []


def test_damage_names_the_trajectory(store, make_trajectory) -> None:
    store.add(make_trajectory(id="a"))
    store.put_credit("train", 1, 0, {"a": credit_of(3)})
    with store.engine.begin() as connection:
        connection.execute(token_credit.update().values(body=b"torn"))
    with pytest.raises(CorruptError, match="trajectory a"):
        store.credit("a")
