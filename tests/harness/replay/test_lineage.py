"""A child is joined to exactly the parent that it names, or to none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agentgym.errors import InputError
from agentgym.store import Store, Trajectory
from agentgym.store.records import ContextEvent, FinishReason, ModelCall, PolicyKind, Sampling, Step, Termination
from agentgym.store.schema import trajectory_body as bodies
from harness.replay.lineage import whole


def trajectory(id_: str, parent: str | None = None, step: int | None = None) -> Trajectory:
    """One call that sampled nothing, one step."""
    ids = np.array([1, 2, 3], np.int32)
    call = ModelCall(ids, ids[:0], np.zeros(0, np.float32), Sampling(), (), FinishReason.STOP, ContextEvent.APPEND)
    return Trajectory(
        id=id_,
        parent_id=parent,
        branch_step=step,
        task_id="t",
        task_digest="sha256:t",
        harness_digest="",
        backend="local",
        image_digest="",
        policy="p",
        policy_kind=PolicyKind.MODEL,
        calls=(call,),
        steps=(Step(0, "bash", {}, id_),),
        termination=Termination.SUBMITTED,
        reward=1.0,
    )


@pytest.fixture
def store(tmp_path: Path):
    with Store.open(tmp_path / "store.db") as opened:
        opened.add(trajectory("parent"))
        yield opened


def test_a_child_stands_behind_what_it_goes_on_from(store: Store) -> None:
    assert [step.observation for step in whole(trajectory("child", "parent", 1), store).steps] == ["parent", "child"]
    assert [step.observation for step in whole(trajectory("child", "parent", 0), store).steps] == ["child"]


@pytest.mark.parametrize(
    ("parent", "step", "reason"),
    [
        ("par", 0, "is not in this store"),
        ("\udc80", 0, "is not in this store"),
        ("parent", 99, "goes on from step 99 of parent, which has 1"),
    ],
)
def test_a_parent_that_does_not_fit_is_none(store: Store, parent: str, step: int, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        whole(trajectory("child", parent, step), store)


def test_a_parent_that_is_damaged_is_the_users_to_know(store: Store) -> None:
    with store.engine.begin() as connection:
        connection.execute(bodies.update().values(detail=b"AGYM"))
    with pytest.raises(InputError, match="goes on from what cannot be read"):
        whole(trajectory("child", "parent", 0), store)
