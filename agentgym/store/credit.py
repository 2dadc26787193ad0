"""What a learner thought of each sampled token of a trajectory: advantage, ratio, value. Told to people, read by no learner.

One row per trajectory, training run and update. Its blob is a container (see `agentgym.store.container`); A action tokens,
in the order in which the trajectory's sequences hold them:

    ADVT  f16[A] advantages            RATI  f16[A] importance ratios π_θ / π_behaviour
    VALU  f16[A] values, where there was a critic        KEPT  bits, A of them: what the objective's mask kept

Half precision has three digits, which is what a colour shows; what lies beyond its range is written as its largest number.
Numbers lie as two byte planes, low bytes first.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from agentgym.store.container import pack, unpack
from agentgym.store.engine import reading, writing
from agentgym.store.errors import CorruptError
from agentgym.store.records import Float32Array
from agentgym.store.rows import naming
from agentgym.store.schema import token_credit as table
from agentgym.store.schema import trajectory as trajectories

_LARGEST = float(np.finfo(np.float16).max)
_PART = 500
"""Ids in one question to the database."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenCredit:
    """advantages, ratios: float32[A]; kept: bool[A], False where the objective masked the token; values: None without a
    critic."""

    advantages: Float32Array
    ratios: Float32Array
    kept: npt.NDArray[np.bool_]
    values: Float32Array | None = None


@dataclass(frozen=True, slots=True)
class CreditEntry:
    """An update that a trajectory took part in. step: of the run. version: of the policy before it."""

    run_id: str
    step: int
    version: int
    credit: TokenCredit


def put_credit(engine: sa.Engine, run_id: str, step: int, version: int, found: Mapping[str, TokenCredit]) -> None:
    """Keep what an update thought of its trajectories, in place of what was there; those that are gone are left out."""
    now, ids = time.time(), list(found)
    with writing(engine) as connection:
        connection.execute(table.delete().where(table.c.run_id == run_id, table.c.step == step))
        for at in range(0, len(ids), _PART):
            there = sa.select(trajectories.c.id).where(trajectories.c.id.in_(ids[at : at + _PART]))
            rows = [
                {
                    "trajectory_id": one,
                    "run_id": run_id,
                    "step": step,
                    "version": version,
                    "body": encode_credit(found[one]),
                    "created_at": now,
                }
                for one in connection.execute(there).scalars()
            ]
            if rows:
                connection.execute(table.insert(), rows)


def read_credit(engine: sa.Engine, trajectory_id: str) -> list[CreditEntry]:
    """Every update that the trajectory took part in, newest first. Raises CorruptError."""
    query = (
        sa.select(table)
        .where(table.c.trajectory_id == trajectory_id)
        .order_by(table.c.created_at.desc(), table.c.step.desc())
    )
    with reading(engine) as connection, naming(trajectory_id):
        return [
            CreditEntry(row.run_id, row.step, row.version, decode_credit(row.body)) for row in connection.execute(query)
        ]


def encode_credit(credit: TokenCredit) -> bytes:
    sections = {"ADVT": _halves(credit.advantages), "RATI": _halves(credit.ratios)}
    if credit.values is not None:
        sections["VALU"] = _halves(credit.values)
    return pack(sections | {"KEPT": np.packbits(credit.kept).tobytes()})


def decode_credit(blob: bytes) -> TokenCredit:
    """Raises CorruptError."""
    sections = unpack(blob)
    try:
        advantages, ratios = _numbers(sections["ADVT"]), _numbers(sections["RATI"])
        kept = np.unpackbits(np.frombuffer(sections["KEPT"], np.uint8), count=len(advantages)).astype(bool)
    except (KeyError, ValueError) as error:
        raise CorruptError(
            f"credit blob with sections {sorted(sections)} does not hold what it should: {error}"
        ) from error
    return TokenCredit(advantages, ratios, kept, _numbers(sections["VALU"]) if "VALU" in sections else None)


def _halves(numbers: Float32Array) -> bytes:
    halves = np.clip(numbers, -_LARGEST, _LARGEST).astype("<f2")
    return halves.view(np.uint8).reshape(-1, 2).T.tobytes()


def _numbers(raw: bytes) -> Float32Array:
    planes = np.frombuffer(raw, np.uint8).reshape(2, -1)
    return np.ascontiguousarray(planes.T).view("<f2").reshape(-1).astype(np.float32)
