"""What a step thought of single tokens is told to the store, token for token, and by position to the metrics."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agentgym.store import Store
from agentgym.store.sequences import sequences
from trainer.batch import Batch
from trainer.config import TrainConfig
from trainer.evidence import Evidence, judge
from trainer.loop import train
from trainer.trace import position_metrics


@pytest.fixture
def trained(tmp_path, policy, policy_dir, sample):
    """Two groups of two, the second trajectory of each with a compacted context, and a function that trains on them."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    given = [
        sample(policy, seed=seed, reward=float(seed % 2), group=f"g{seed // 2}", compact_at=1 if seed % 2 else None)
        for seed in range(4)
    ]
    with Store.open(url) as store:
        for one in given:
            store.add(one)

    def go(**values):
        train(TrainConfig(model=policy_dir, store=url, output=tmp_path / "out", value_warmup_steps=1, **values))
        return Store.open(url)

    return given, go


def test_each_action_token_has_its_advantage_ratio_and_value_in_the_order_of_the_sequences(trained) -> None:
    given, go = trained
    with go() as store:
        for one in given:
            [entry] = store.credit(one.id)
            assert (entry.run_id, entry.step, entry.version) == ("out", 1, 0)
            count = sum(sequence.action_count for sequence in sequences(one))
            assert len(entry.credit.advantages) == len(entry.credit.kept) == count
            assert entry.credit.values is not None
            np.testing.assert_allclose(entry.credit.ratios, 1, atol=2e-3)  # on policy
            # λ = 1 towards the verdict: advantage is what the critic did not foresee.
            np.testing.assert_allclose(entry.credit.advantages[-1], one.reward - entry.credit.values[-1], atol=2e-3)


def test_group_rules_have_no_value_and_one_advantage_for_all_tokens_of_an_episode(trained) -> None:
    given, go = trained
    with go(credit="grpo", objective="grpo") as store:
        for one in given:
            [entry] = store.credit(one.id)
            assert entry.credit.values is None
            assert np.ptp(entry.credit.advantages) == 0
            assert (entry.credit.advantages[0] > 0) == bool(one.reward)
        measured = store.metrics("out")[1]
    assert measured["advantage/0"] == pytest.approx(measured["advantage_mean"], abs=1.0)
    assert {"policy_loss", "dropped/uniform_group"} & set(measured)


def test_a_run_that_keeps_nothing_of_tokens_still_keeps_its_metrics_under_its_name(trained) -> None:
    given, go = trained
    with go(keep_token_credit=False, name="mine") as store:
        assert store.credit(given[0].id) == []
        assert store.measured_runs() == ["mine"]


def test_positions_are_tenths_of_an_episodes_calls(policy, sample) -> None:
    evidence = judge(sample(policy, turns=5), TrainConfig.model_construct(), version=0)
    assert isinstance(evidence, Evidence)
    batch = Batch.of([evidence], micro_batch_tokens=1000)
    found = position_metrics(batch, batch.calls.float() - 2)
    assert {name: value for name, value in found.items() if name.startswith("advantage/")} == {
        "advantage/0": -2, "advantage/2": -1, "advantage/4": 0, "advantage/6": 1, "advantage/8": 2,
    }  # fmt: skip
    assert found["advantage_size/0"] == 2
    assert torch.isfinite(torch.tensor(list(found.values()))).all()
