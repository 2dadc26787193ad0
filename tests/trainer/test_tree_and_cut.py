"""Credit beyond one scalar: values on a tree of forks, a cut at the first error, and the suffix-only loss of a replay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from agentgym.store import Store
from agentgym.store.records import Step
from trainer.batch import Batch
from trainer.chain import Chain
from trainer.config import EvidenceRules, TrainConfig
from trainer.credit import CREDITS, CreditInput
from trainer.errors import TrainConfigError
from trainer.evidence import Evidence, judge
from trainer.feed import Feed


def given(rewards: list[float], calls: list[list[int]], **more) -> CreditInput:
    """calls: per trajectory, the call of each action token."""
    chain = Chain(torch.tensor([len(one) for one in calls]))
    verdicts = torch.tensor(rewards)
    token_rewards = torch.zeros(chain.tokens)
    token_rewards[chain.last] = verdicts
    flat = torch.tensor([call for one in calls for call in one])
    return CreditInput(chain, token_rewards, verdicts, ("p",) * len(rewards), calls=flat, **more)


def test_treerl_values_of_a_tree_worked_by_hand() -> None:
    """Given a root rollout of three calls with R = 1, a fork of it after its first call with R = 0, and a second rollout
    with R = 0: V(root) = 1/3.

        first stretch of the root rollout: leaves {1, 0}, V = 1/2, parent the root: (1 − 1/3 − 1/3)/√2
        its rest: leaf {1}, V = 1, parent V = 1/2:                                  2 − 1/3 − 1/2
        the fork: leaf {0}, parent V = 1/2:                                         −1/3 − 1/2
        the second rollout: leaf {0}, parent the root:                              −1/3 − 1/3
    """
    item = given(
        [1.0, 0.0, 0.0],
        [[0, 0, 1, 2], [0, 1], [0]],
        forks=((None, 0), (0, 1), (None, 0)),
    )
    found = CREDITS.build("treerl").advantages(item)
    first = (1 - 2 / 3) / np.sqrt(2)
    expected = [first, first, 2 - 1 / 3 - 0.5, 2 - 1 / 3 - 0.5, -1 / 3 - 0.5, -1 / 3 - 0.5, -2 / 3]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float32), rtol=1e-6, atol=1e-6)


def test_without_forks_treerl_is_twice_the_distance_from_the_groups_mean() -> None:
    item = given([1.0, 0.0, 0.0, 1.0], [[0, 1]] * 4, forks=((None, 0),) * 4)
    found = CREDITS.build("treerl").advantages(item)
    assert found[item.chain.last].tolist() == [1.0, -1.0, -1.0, 1.0]


def test_forks_of_forks_hang_where_they_left() -> None:
    """V is the mean of all leaves below, however deep; the leaves of a fork at call 0 are siblings of its parent."""
    item = given([1.0, 0.0, 1.0, 0.0], [[0, 1, 2], [0, 1], [0], [0]], forks=((None, 0), (0, 1), (1, 1), (0, 0)))
    found = CREDITS.build("treerl").advantages(item)
    root, below_first, fork = 0.5, 2 / 3, 0.5
    expected = [
        (2 * below_first - 2 * root) / np.sqrt(3),  # call 0 of the root rollout: leaves 1, 0, 1
        2 - root - below_first,
        2 - root - below_first,
        (2 * fork - root - below_first) / np.sqrt(2),  # call 0 of the fork: leaves 0, 1
        0 - root - fork,
        2 - root - fork,
        0 - 2 * root,
    ]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float32), rtol=1e-6, atol=1e-6)


def test_a_cut_spares_what_came_before_the_first_error() -> None:
    marks = {"failed_edit": torch.tensor([1, -1, 1]), "invalid": torch.tensor([-1] * 3)}
    item = given([0.0, 0.0, 1.0], [[0, 0, 1, 2], [0, 1], [0, 1]], marks=marks)
    options = {"rule": "reinforce", "rule_options": {"baseline": 0.5}}
    found = CREDITS.build("first-error", options).advantages(item)
    assert found.tolist() == [0.0, 0.0, -0.5, -0.5, -0.5, -0.5, 0.5, 0.5]
    untouched = CREDITS.build("first-error", options | {"signal": "invalid"}).advantages(item)
    assert untouched.tolist() == [-0.5] * 6 + [0.5] * 2


def test_a_cut_cannot_cut_itself() -> None:
    with pytest.raises(TrainConfigError, match="cannot cut itself"):
        CREDITS.build("first-error", {"rule": "first-error"})


def test_marks_come_from_recorded_steps(policy, sample) -> None:
    steps = (
        Step(0, "bash", {}, "ok", exit_code=1),
        Step(1, "edit", {}, "no match", valid=True, exit_code=1),
        Step(2, "", {}, "no call", valid=False),
    )
    found = judge(sample(policy, steps=steps, metadata={"broken_at": 2}), EvidenceRules(), version=0)
    assert isinstance(found, Evidence)
    assert found.marks == {"failed_edit": 1, "invalid": 2, "broken": 2}


def test_a_replayed_prefix_is_context_and_never_trained(policy, sample) -> None:
    """Given a fork that went on behind its parent's second call, then its action tokens are its own calls' only, each scored
    behind the parent's exact tokens."""
    parent = sample(policy, seed=1, turns=3)
    own = parent.calls[2]
    child = replace(parent, id="f" * 32, calls=(own,), parent_id=parent.id, branch_step=2, reward=0.0)
    found = judge(child, EvidenceRules(), version=0)
    assert isinstance(found, Evidence)
    (row,) = found.rows
    assert row.token_ids.tolist() == own.prompt_token_ids.tolist() + own.generation_token_ids.tolist()
    assert row.positions.tolist() == list(range(len(own.prompt_token_ids), len(row)))


def test_a_fork_joins_the_group_of_its_tree(tmp_path, policy, sample) -> None:
    steps = tuple(Step(index, "bash", {}, "") for index in range(3))
    parent = sample(policy, seed=1, turns=3, steps=steps, group="prompt")
    child = replace(parent, id="f" * 32, created_at=2000.0, calls=parent.calls[2:], parent_id=parent.id, branch_step=2)
    child = replace(child, group_id="a fork's own", reward=0.0, steps=())
    url = f"sqlite:///{tmp_path / 'store.db'}"
    config = TrainConfig(model=tmp_path, store=url, output=tmp_path, credit="treerl", objective="reinforce")
    with Store.open(url) as store:
        store.add(parent)
        store.add(child)
        feed = Feed(config, CREDITS.build("treerl"))
        feed.read(store, version=0)
    feed.close_groups()
    batch = Batch.of(feed.take(0), micro_batch_tokens=1000)
    assert batch.groups == ("prompt", "prompt")
    assert batch.forks() == ((None, 0), (0, 2))
