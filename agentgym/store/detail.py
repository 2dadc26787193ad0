"""Everything of a trajectory that is neither a token nor a column people query, as one JSON section in a container.

Steps live here and not in a table of their own: nobody selects a single step across runs, everybody reads the steps
of one trajectory, and observations compress ten times better together. JSON is written in ASCII, so text no database
column would take (NUL, lone surrogates from broken terminals) comes back exactly. Mapping keys become strings, tuples
become lists.

Beside it lies a seal (`SUMS`) of the columns, the token blob and the JSON: a reward that was changed in the table alone, tokens
that are another trajectory's, or a patch that was written over are not what was recorded.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from agentgym.store.container import pack, unpack
from agentgym.store.errors import CorruptError, StoreError
from agentgym.store.filter import FLOAT_FIELDS, RECORD_FIELDS, TrajectorySummary, as_stored
from agentgym.store.kinds import require_kinds
from agentgym.store.records import Step, Trajectory

DETAIL_FIELDS = ("steps", "reward_vector", "verdicts", "patch", "timings", "error", "metadata")
"""Fields of `Trajectory` that are neither calls nor columns."""
_STEP_FIELDS = ("call_index", "tool", "observation", "valid", "exit_code", "duration", "truncated", "tree_hash")


def step_document(step: Step) -> dict[str, Any]:
    """A step as JSON-ready dict, as stored, exported and served."""
    return {**{name: getattr(step, name) for name in _STEP_FIELDS}, "arguments": dict(step.arguments)}


def steps_of(documents: Any) -> tuple[Step, ...]:
    """The steps of a list of `step_document`s. Raises TypeError for what is none."""
    if not isinstance(documents, list):
        raise TypeError(f"steps is {documents!r:.80}")
    for document in documents:
        require_kinds(Step, document)
    return tuple(Step(**document) for document in documents)


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
    json_section = text.encode("ascii")
    return pack({"JSON": json_section, "SUMS": _seal(trajectory, tokens, json_section)})


def is_sealed(record: TrajectorySummary, tokens: bytes, blob: bytes) -> bool | None:
    """Whether columns, token blob and detail blob are those that were recorded together; None where the detail blob has no
    seal, as before there were such. Raises CorruptError.
    """
    sections = _sections(blob)
    return sections["SUMS"] == _seal(record, tokens, sections["JSON"]) if "SUMS" in sections else None


def decode_detail(blob: bytes) -> dict[str, Any]:
    """Keyword arguments of `Trajectory` from a detail blob. Raises CorruptError."""
    try:
        document = json.loads(_sections(blob)["JSON"])
        found = {**{name: document[name] for name in DETAIL_FIELDS}, "steps": steps_of(document["steps"])}
        require_kinds(Trajectory, found)
        return found
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptError(f"detail blob does not hold a detail document: {error}") from error


def _sections(blob: bytes) -> dict[str, bytes]:
    sections = unpack(blob)
    if "JSON" not in sections:
        raise CorruptError(f"detail blob has only the sections {sorted(sections)}")
    return sections


def _seal(record: Trajectory | TrajectorySummary, tokens: bytes, json_section: bytes) -> bytes:
    """SHA-256 of the columns that stand nowhere else, by name, and of what the blobs hold; a number of a column of numbers is the
    same as integer and as float, and 0.0 the same as -0.0.
    """
    columns = {name: getattr(record, name) for name in RECORD_FIELDS}
    columns |= {name: as_stored(columns[name]) for name in FLOAT_FIELDS}
    told = json.dumps(columns, sort_keys=True).encode()
    return hashlib.sha256(told + hashlib.sha256(tokens).digest() + hashlib.sha256(json_section).digest()).digest()
