"""One trajectory as table rows, and back: the only place that knows which field lives in which column or blob."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agentgym.store.codec import decode_calls, encode_calls
from agentgym.store.detail import decode_detail, encode_detail
from agentgym.store.errors import CorruptError
from agentgym.store.filter import FLOAT_FIELDS, RECORD_FIELDS, TrajectorySummary, as_stored, printable
from agentgym.store.records import Trajectory
from agentgym.store.validate import sound_layout


@dataclass(frozen=True, slots=True)
class EncodedTrajectory:
    """Parameters of the two INSERTs."""

    row: dict[str, Any]
    body: dict[str, Any]


def encode_trajectory(trajectory: Trajectory) -> EncodedTrajectory:
    """The rows of a trajectory. Raises InvalidTrajectoryError, or StoreError where a value has no JSON form."""
    encoded = encode_calls(trajectory.calls, sound_layout(trajectory))
    row = {name: getattr(trajectory, name) for name in RECORD_FIELDS}
    row |= {
        "policy_kind": trajectory.policy_kind.value,
        "termination": trajectory.termination.value,
        **{name: as_stored(getattr(trajectory, name)) for name in FLOAT_FIELDS},
        "calls": encoded.calls,
        "steps": len(trajectory.steps),
        "tokens": encoded.tokens,
        "action_tokens": encoded.action_tokens,
        "version_min": encoded.version_min,
        "version_max": encoded.version_max,
    }
    body = {"trajectory_id": trajectory.id, "tokens": encoded.blob, "detail": encode_detail(trajectory, encoded.blob)}
    return EncodedTrajectory(row, body)


def decode_trajectory(summary: TrajectorySummary, tokens: bytes, detail: bytes) -> Trajectory:
    """The trajectory of a row and its blobs. Raises CorruptError."""
    columns = {name: getattr(summary, name) for name in RECORD_FIELDS}
    return Trajectory(**columns, **decode_detail(detail), calls=decode_calls(tokens))


@contextmanager
def naming(trajectory_id: str) -> Iterator[None]:
    """Say which trajectory a CorruptError is about; a value no record type accepts is one too."""
    try:
        yield
    except (CorruptError, TypeError, ValueError, RecursionError) as error:
        raise CorruptError(f"trajectory {printable(trajectory_id)}: {error}") from error
