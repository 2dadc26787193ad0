"""What a replay says of the course of an episode."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from agentgym.cli.replay_report import Replayed, document, page
from agentgym.store.states import WorkspaceState, WorkspaceStates


def course(*rewards: float | None) -> Replayed:
    states = tuple(WorkspaceState(2 * number, None, "", reward) for number, reward in enumerate(rewards))
    return Replayed("a" * 32, "t", progress=WorkspaceStates("a" * 32, states))


@pytest.mark.parametrize(
    ("rewards", "says", "steps"),
    [
        ((0.0, 0.0), "no state of 2 executed steps passes the hidden tests", (None, None)),
        ((0.0, 1.0, 1.0), "solved at step 2, and still at the end (3 executed steps)", (2, None)),
        ((1.0, 0.0, 0.0), "solved at step 0, broken at step 2 (3 executed steps)", (0, 2)),
        ((1.0, 0.0, 1.0), "solved at step 0, and still at the end (3 executed steps)", (0, None)),
        ((), "no state of 0 executed steps passes the hidden tests", (None, None)),
    ],
)
def test_when_it_was_solved_and_when_broken(rewards, says, steps) -> None:
    done = [course(*rewards)]
    console = Console(file=StringIO(), width=200)
    console.print(page(done))
    assert says in console.file.getvalue()  # type: ignore[attr-defined]
    told = document(done, None)
    assert (told["trajectories"][0]["progress"]["solved_at"], told["trajectories"][0]["progress"]["broken_at"]) == steps
    assert told["summary"]["ever_solved"] == (steps[0] is not None)
    assert told["summary"]["broken_again"] == (steps[1] is not None)
