"""The states a workspace went through, step by step: what changed, and whether the hidden tests pass there.

An episode records only its last patch and a tree hash per step. A replay that grades every state finds the rest out (see
`harness.progress`), and keeps it here for people. It is no evidence: no reward and no learner reads it.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from agentgym.store.container import pack, unpack
from agentgym.store.engine import reading, writing
from agentgym.store.errors import CorruptError, NotFoundError
from agentgym.store.rows import naming
from agentgym.store.schema import trajectory_states as table


@dataclass(frozen=True, slots=True)
class WorkspaceState:
    """After one executed step. diff: unified, since the state before, "" where nothing changed. reward: what a submission
    of it would have got, None where grading failed."""

    step: int
    tree_hash: str | None
    diff: str
    reward: float | None


@dataclass(frozen=True, slots=True)
class WorkspaceStates:
    """The states of one trajectory in order, one per executed step."""

    trajectory_id: str
    states: tuple[WorkspaceState, ...]

    @property
    def solved_at(self) -> int | None:
        """The first step whose state passes."""
        return next((state.step for state in self.states if state.reward == 1.0), None)

    @property
    def broken_at(self) -> int | None:
        """The first step after `solved_at` whose state fails, where the last state fails too."""
        solved = self.solved_at
        if solved is None or self.states[-1].reward == 1.0:
            return None
        return next(state.step for state in self.states if state.step > solved and state.reward != 1.0)

    @property
    def last_failed(self) -> int | None:
        """The last step whose state fails."""
        return next((state.step for state in reversed(self.states) if state.reward not in (None, 1.0)), None)


def put_states(engine: sa.Engine, found: WorkspaceStates) -> None:
    """Raises NotFoundError for a trajectory that is not there."""
    text = json.dumps([asdict(state) for state in found.states], separators=(",", ":"))
    row = {
        "trajectory_id": found.trajectory_id,
        "body": pack({"JSON": text.encode("ascii")}),
        "created_at": time.time(),
    }
    try:
        with writing(engine) as connection:
            connection.execute(table.delete().where(table.c.trajectory_id == found.trajectory_id))
            connection.execute(table.insert(), row)
    except IntegrityError:
        raise NotFoundError(f"no trajectory {found.trajectory_id!r}") from None


def read_states(engine: sa.Engine, trajectory_id: str) -> WorkspaceStates | None:
    """None where no replay has found them out. Raises CorruptError."""
    with reading(engine) as connection:
        body = connection.execute(sa.select(table.c.body).where(table.c.trajectory_id == trajectory_id)).scalar()
    if body is None:
        return None
    with naming(trajectory_id):
        sections = unpack(body)
        if "JSON" not in sections:
            raise CorruptError(f"states blob has only the sections {sorted(sections)}")
        states = tuple(WorkspaceState(**one) for one in json.loads(sections["JSON"]))
    return WorkspaceStates(trajectory_id, states)
