"""Everything of a trajectory that is neither a token nor a column people query, as one JSON section in a container.

Steps live here and not in a table of their own: nobody selects a single step across runs, everybody reads the steps
of one trajectory, and observations compress ten times better together. JSON is written in ASCII, so text no database
column would take (NUL, lone surrogates from broken terminals) comes back exactly. Mapping keys become strings, tuples
become lists.

Beside it lies a seal (`SEAL`) of the columns and the token blob: a reward that was changed in the table alone, or tokens that
are another trajectory's, are not what was recorded.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from agentgym.store.container import pack, unpack
from agentgym.store.errors import CorruptError, StoreError
from agentgym.store.filter import RECORD_FIELDS, TrajectorySummary
from agentgym.store.records import Step, Trajectory

_STEP_FIELDS = ("call_index", "tool", "observation", "valid", "exit_code", "duration", "truncated", "tree_hash")


def step_document(step: Step) -> dict[str, Any]:
    """A step as JSON-ready dict, as stored, exported and served."""
    return {**{name: getattr(step, name) for name in _STEP_FIELDS}, "arguments": dict(step.arguments)}


def step_from_document(document: dict[str, Any]) -> Step:
    """The step of `step_document`."""
    return Step(**document)


def detail_document(trajectory: Trajectory) -> dict[str, Any]:
    return {
        "steps": [step_document(step) for step in trajectory.steps],
        "reward_vector": dict(trajectory.reward_vector),
        "verdicts": dict(trajectory.verdicts),
        "patch": trajectory.patch,
        "timings": dict(trajectory.timings),
        "error": trajectory.error,
        "metadata": dict(trajectory.metadata),
    }


def encode_detail(trajectory: Trajectory, tokens: bytes) -> bytes:
    """The detail blob; `tokens` is the token blob it belongs to. Raises StoreError where a value has no JSON form."""
    try:
        text = json.dumps(detail_document(trajectory), separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(
            f"trajectory {trajectory.id}: step arguments or metadata hold a value without JSON form ({error})",
            hint="keep arguments and metadata to dicts, lists, strings, numbers, booleans and None",
        ) from error
    return pack({"JSON": text.encode("ascii"), "SEAL": seal(trajectory, tokens)})


def seal(record: Trajectory | TrajectorySummary, tokens: bytes) -> bytes:
    """SHA-256 of the columns that stand nowhere else, by name, and of the token blob; a number is the same as integer and as
    float.
    """
    columns = {name: getattr(record, name) for name in RECORD_FIELDS}
    told = {name: float(value) if isinstance(value, int | float) else value for name, value in columns.items()}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode() + hashlib.sha256(tokens).digest()).digest()


def sealed(blob: bytes) -> bytes | None:
    """The seal in a detail blob; None where it was written before there were such. Raises CorruptError."""
    return unpack(blob, only="SEAL").get("SEAL")


def decode_detail(blob: bytes) -> dict[str, Any]:
    """Keyword arguments of `Trajectory` from a detail blob. Raises CorruptError."""
    sections = unpack(blob)
    if "JSON" not in sections:
        raise CorruptError(f"detail blob has only the sections {sorted(sections)}")
    try:
        document = json.loads(sections["JSON"])
        return {**document, "steps": tuple(step_from_document(step) for step in document["steps"])}
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptError(f"detail blob does not hold a detail document: {error}") from error
