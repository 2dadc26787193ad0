"""A trajectory as one JSON document, and back, equal in every field and every bit of every logprob.

    {"format": "agentgym-trajectory", "version": 1,
     ... every field of `Trajectory` under its own name ...,
     "calls": [{"shared": 0, "suffix_token_ids": [...], "generation_token_ids": [...], "logprobs": [...], ...}],
     "harness": {...}}                                     the document behind `harness_digest`, where the store has it

Prompts are deltas as in the blobs: `shared` leading tokens of the previous call's prompt + generation, then
`suffix_token_ids`. Written whole they would make a file of 100 turns fifty times as long. The text is ASCII, so that
whatever a terminal printed comes back; NaN and infinities are spelled as Python spells them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from agentgym.store.detail import DETAIL_FIELDS, detail_document, steps_of
from agentgym.store.filter import RECORD_FIELDS
from agentgym.store.kinds import require_kinds
from agentgym.store.layout import layout_of
from agentgym.store.records import (
    ContextEvent,
    FinishReason,
    ModelCall,
    PolicyKind,
    Sampling,
    Termination,
    Trajectory,
    VersionSpan,
)
from agentgym.store.transfer.errors import TransferError

FORMAT = "agentgym-trajectory"
VERSION = 1


def to_document(trajectory: Trajectory, harness: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """JSON-ready; write it with `dumps`."""
    layout = layout_of(trajectory.calls)
    calls = [
        {
            "shared": shared,
            "suffix_token_ids": call.prompt_token_ids[shared:].tolist(),
            "generation_token_ids": call.generation_token_ids.tolist(),
            "logprobs": call.logprobs.tolist(),
            **call_document(call),
        }
        for call, shared in zip(trajectory.calls, layout.shared.tolist(), strict=True)
    ]
    document = {"format": FORMAT, "version": VERSION, **record_document(trajectory), "calls": calls}
    return document if harness is None else {**document, "harness": dict(harness)}


def from_document(document: Mapping[str, Any]) -> Trajectory:
    """The trajectory of `to_document`. Raises TransferError for another version, KeyError, TypeError, ValueError or
    OverflowError where a field is missing or of another kind."""
    if type(document.get("version")) is not int or document["version"] != VERSION:
        raise TransferError(
            f"the document has version {document.get('version')!r}, this agentgym reads {VERSION}",
            hint="upgrade agentgym",
        )
    calls: list[ModelCall] = []
    context = np.zeros(0, np.int32)
    for one in list_of(document, "calls"):
        if type(one["shared"]) is not int or not 0 <= one["shared"] <= len(context):
            raise ValueError(f"call {len(calls)} shares {one['shared']} of {len(context)} tokens")
        prompt = np.concatenate([context[: one["shared"]], token_array(one["suffix_token_ids"])])
        calls.append(call_from_document(one, prompt, one["generation_token_ids"], one["logprobs"]))
        context = np.concatenate([prompt, calls[-1].generation_token_ids])
    return record_from_document(document, tuple(calls))


def dumps(document: Mapping[str, Any]) -> str:
    """One line of ASCII."""
    return json.dumps(document, separators=(",", ":"))


def harness_of(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The harness document that lies in another one, None where there is none. Raises TypeError for what is no object."""
    harness = document.get("harness")
    if harness is not None and not isinstance(harness, dict):
        raise TypeError(f"harness is {harness!r:.80}")
    return harness


def record_document(trajectory: Trajectory) -> dict[str, Any]:
    """All of a trajectory but its calls."""
    return {**{name: getattr(trajectory, name) for name in RECORD_FIELDS}, **detail_document(trajectory)}


def record_from_document(document: Mapping[str, Any], calls: tuple[ModelCall, ...]) -> Trajectory:
    fields = {name: document[name] for name in (*RECORD_FIELDS, *DETAIL_FIELDS)}
    fields |= {
        "policy_kind": PolicyKind(fields["policy_kind"]),
        "termination": Termination(fields["termination"]),
        "steps": steps_of(fields["steps"]),
        "calls": calls,
    }
    require_kinds(Trajectory, fields)
    return Trajectory(**fields)


def call_document(call: ModelCall) -> dict[str, Any]:
    """All of a call but its arrays."""
    return {
        "sampling": asdict(call.sampling),
        "policy_versions": [asdict(span) for span in call.policy_versions],
        "finish_reason": call.finish_reason.value,
        "context_event": call.context_event.value,
        "started_at": call.started_at,
        "duration": call.duration,
    }


def call_from_document(
    document: Mapping[str, Any], prompt: np.ndarray, generation: list[int], logprobs: list[float]
) -> ModelCall:
    spans = list_of(document, "policy_versions")
    for span in spans:
        require_kinds(VersionSpan, span)
    require_kinds(Sampling, document["sampling"])
    require_kinds(ModelCall, {name: document[name] for name in ("started_at", "duration")})
    return ModelCall(
        prompt_token_ids=prompt,
        generation_token_ids=token_array(generation),
        logprobs=logprob_array(logprobs),
        sampling=Sampling(**document["sampling"]),
        policy_versions=tuple(VersionSpan(**span) for span in spans),
        finish_reason=FinishReason(document["finish_reason"]),
        context_event=ContextEvent(document["context_event"]),
        started_at=document["started_at"],
        duration=document["duration"],
    )


def list_of(document: Mapping[str, Any], name: str) -> list[Any]:
    """Raises TypeError for a field that is none: nothing else may pass for an empty one."""
    if type(document[name]) is not list:
        raise TypeError(f"{name} is {document[name]!r:.80}")
    return document[name]


def token_array(ids: list[int]) -> np.ndarray:
    """int32 ids. Raises ValueError for what is no token id."""
    if type(ids) is not list or not set(map(type, ids)) <= {int}:
        raise ValueError("token ids are not a list of integers")
    if len(ids) and not (min(ids) >= 0 and max(ids) < 1 << 31):
        raise ValueError(f"token id {min(ids) if min(ids) < 0 else max(ids)} does not fit 31 bits")
    return np.array(ids, np.int32)


def logprob_array(logprobs: list[float]) -> np.ndarray:
    """float32 logprobs. Raises ValueError for what is no number, OverflowError for one that is none of a float."""
    if type(logprobs) is not list or not set(map(type, logprobs)) <= {int, float}:
        raise ValueError("logprobs are not a list of numbers")
    return np.array(logprobs, np.float32)
