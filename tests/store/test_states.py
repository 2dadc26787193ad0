"""The states a workspace went through: kept beside the trajectory, read as a diagnosis, gone with it."""

from __future__ import annotations

import pytest

from agentgym.store import NotFoundError, TrajectoryFilter
from agentgym.store.retention import remove
from agentgym.store.states import WorkspaceState, WorkspaceStates


def states_of(*rewards: float | None) -> WorkspaceStates:
    return WorkspaceStates(
        "a", tuple(WorkspaceState(2 * k, f"t{k}", "-x\n+ü\udc80\n", one) for k, one in enumerate(rewards))
    )


@pytest.mark.parametrize(
    ("rewards", "solved", "broken", "failed"),
    [
        ((0.0, 1.0, 1.0), 2, None, 0),
        ((0.0, 1.0, 0.0), 2, 4, 4),
        ((1.0, 0.0, 1.0), 0, None, 2),
        ((0.0, None), None, None, 0),
        ((), None, None, None),
    ],
)
def test_when_it_was_solved_broken_and_last_failed(rewards, solved, broken, failed) -> None:
    found = states_of(*rewards)
    assert (found.solved_at, found.broken_at, found.last_failed) == (solved, broken, failed)


def test_states_come_back_equal_and_the_newest_replay_counts(store, make_trajectory) -> None:
    store.add(make_trajectory(id="a"))
    assert store.states("a") is None
    store.put_states(states_of(1.0))
    store.put_states(states_of(0.0, None))
    assert store.states("a") == states_of(0.0, None)
    remove(store, TrajectoryFilter())
    assert store.states("a") is None
    with pytest.raises(NotFoundError):
        store.put_states(states_of(1.0))
