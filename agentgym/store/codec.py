"""A trajectory's calls as one blob, bit for bit, and back.

The blob is a container (see `agentgym.store.container`) of four sections; N calls, S version spans, M tokens in the
stream of the layout (see `agentgym.store.layout`), A of them generated:

    CALL  the columns of `CALL_COLUMNS`, each as one array of N, one after the other
    SPAN  i32[S] versions, then u32[S] lengths, call by call
    TOK2  u16[M] token ids, where every id fits; otherwise
    TOK4  u32[M] token ids
    LOGP  f32[A] logprobs as four byte planes: all lowest bytes first, all highest bytes last

Plain 16-bit ids under zstd beat frequency ranks, varints and byte planes on real agent logs (smaller *and* faster:
repeated text stays byte-aligned for the match finder). Logprobs are nearly random in their low bytes, so planes keep
that noise away from the exponents. `decode_layout` is the trainer's road: it builds no prompt and no Python object
per token or call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym.store.container import pack, unpack
from agentgym.store.errors import CorruptError
from agentgym.store.layout import TokenLayout, layout_of
from agentgym.store.records import ContextEvent, FinishReason, ModelCall, Sampling, VersionSpan

CALL_COLUMNS = (
    ("shared", "<u4"),
    ("suffix", "<u4"),
    ("generated", "<u4"),
    ("spans", "<u4"),
    ("finish", "u1"),
    ("event", "u1"),
    ("temperature", "<f8"),
    ("top_p", "<f8"),
    ("top_k", "<i4"),
    ("has_seed", "u1"),
    ("seed", "<i8"),
    ("started_at", "<f8"),
    ("duration", "<f8"),
)
FINISH_CODES = (FinishReason.STOP, FinishReason.LENGTH, FinishReason.ABORT)
EVENT_CODES = (ContextEvent.APPEND, ContextEvent.COMPACTED, ContextEvent.TRUNCATED, ContextEvent.REWRITTEN)
_CALL_BYTES = sum(np.dtype(kind).itemsize for _, kind in CALL_COLUMNS)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedCalls:
    """`blob` and the counts that SQL columns repeat. tokens: stored once each. versions: None where none was
    sampled."""

    blob: bytes
    calls: int
    tokens: int
    action_tokens: int
    version_min: int | None
    version_max: int | None


def encode_calls(calls: Sequence[ModelCall], layout: TokenLayout | None = None) -> EncodedCalls:
    """The blob of a trajectory's calls, which must be sound (`agentgym.store.validate`). `layout`: theirs, if at
    hand."""
    layout = layout or layout_of(calls)
    columns: dict[str, Any] = {
        "shared": layout.shared,
        "suffix": layout.suffix,
        "generated": layout.generated,
        "spans": layout.span_count,
        "finish": [FINISH_CODES.index(call.finish_reason) for call in calls],
        "event": [EVENT_CODES.index(call.context_event) for call in calls],
        "temperature": layout.temperature,
        "top_p": [call.sampling.top_p for call in calls],
        "top_k": [call.sampling.top_k for call in calls],
        "has_seed": [call.sampling.seed is not None for call in calls],
        "seed": [call.sampling.seed or 0 for call in calls],
        "started_at": [call.started_at for call in calls],
        "duration": [call.duration for call in calls],
    }
    narrow = len(layout.stream) == 0 or int(layout.stream.max()) < 1 << 16
    blob = pack(
        {
            "CALL": b"".join(np.asarray(columns[name]).astype(kind).tobytes() for name, kind in CALL_COLUMNS),
            "SPAN": layout.span_version.astype("<i4").tobytes() + layout.span_length.astype("<u4").tobytes(),
            ("TOK2" if narrow else "TOK4"): layout.stream.astype("<u2" if narrow else "<u4").tobytes(),
            "LOGP": layout.logprobs.astype("<f4", copy=False).view(np.uint8).reshape(-1, 4).T.tobytes(),
        }
    )
    sampled = layout.span_version[layout.span_length > 0]
    return EncodedCalls(
        blob=blob,
        calls=layout.calls,
        tokens=len(layout.stream),
        action_tokens=len(layout.logprobs),
        version_min=int(sampled.min()) if len(sampled) else None,
        version_max=int(sampled.max()) if len(sampled) else None,
    )


def decode_layout(blob: bytes) -> TokenLayout:
    """The layout in a blob. Raises CorruptError."""
    return _layout(*_sections(blob))


def decode_calls(blob: bytes) -> tuple[ModelCall, ...]:
    """The calls in a blob, exactly as encoded; prompts are views, do not write to them. Raises CorruptError."""
    columns, sections = _sections(blob)
    layout = _layout(columns, sections)
    plain = {name: column.tolist() for name, column in columns.items()}
    if any(code >= len(FINISH_CODES) for code in plain["finish"]) or any(c >= len(EVENT_CODES) for c in plain["event"]):
        raise CorruptError("blob holds an unknown finish reason or context event", hint="upgrade agentgym")
    spans = list(zip(layout.span_version.tolist(), layout.span_length.tolist(), strict=True))
    generation_ends = np.cumsum(layout.suffix + layout.generated).tolist()
    calls: list[ModelCall] = []
    span_at = logprob_at = 0
    for k, prompt in enumerate(layout.prompts()):
        count, length = plain["generated"][k], plain["spans"][k]
        calls.append(
            ModelCall(
                prompt_token_ids=prompt,
                generation_token_ids=layout.stream[generation_ends[k] - count : generation_ends[k]],
                logprobs=layout.logprobs[logprob_at : logprob_at + count],
                sampling=Sampling(
                    temperature=plain["temperature"][k],
                    top_p=plain["top_p"][k],
                    top_k=plain["top_k"][k],
                    seed=plain["seed"][k] if plain["has_seed"][k] else None,
                ),
                policy_versions=_spans(spans[span_at : span_at + length]),
                finish_reason=FINISH_CODES[plain["finish"][k]],
                context_event=EVENT_CODES[plain["event"][k]],
                started_at=plain["started_at"][k],
                duration=plain["duration"][k],
            )
        )
        span_at += length
        logprob_at += count
    return tuple(calls)


def _spans(pairs: list[tuple[int, int]]) -> tuple[VersionSpan, ...]:
    spans: list[VersionSpan] = []
    start = 0
    for version, length in pairs:
        spans.append(VersionSpan(version, start, start + length))
        start += length
    return tuple(spans)


def _sections(blob: bytes) -> tuple[dict[str, npt.NDArray[Any]], dict[str, bytes]]:
    sections = unpack(blob)
    missing = {"CALL", "SPAN", "LOGP"} - sections.keys()
    if missing or not sections.keys() & {"TOK2", "TOK4"}:
        raise CorruptError(f"token blob has only the sections {sorted(sections)}")
    count, rest = divmod(len(sections["CALL"]), _CALL_BYTES)
    if rest:
        raise CorruptError(f"section CALL has {len(sections['CALL'])} bytes, not a multiple of {_CALL_BYTES}")
    columns: dict[str, npt.NDArray[Any]] = {}
    offset = 0
    for name, kind in CALL_COLUMNS:
        columns[name] = np.frombuffer(sections["CALL"], kind, count, offset)
        offset += columns[name].nbytes
    return columns, sections


def _layout(columns: dict[str, npt.NDArray[Any]], sections: dict[str, bytes]) -> TokenLayout:
    raw_tokens = _array(sections, "TOK2", "<u2") if "TOK2" in sections else _array(sections, "TOK4", "<u4")
    if len(raw_tokens) and int(raw_tokens.max()) >= 1 << 31:
        raise CorruptError(f"token blob holds the id {int(raw_tokens.max())}, which is none")
    spans = _array(sections, "SPAN", "<i4")
    half = len(spans) // 2
    planes = _array(sections, "LOGP", "u1")
    if len(planes) % 4 or len(spans) % 2:
        raise CorruptError("section LOGP or SPAN is cut off")
    logprobs = np.ascontiguousarray(planes.reshape(4, -1).T).view("<f4").ravel()
    layout = TokenLayout(
        shared=columns["shared"].astype(np.int64),
        suffix=columns["suffix"].astype(np.int64),
        generated=columns["generated"].astype(np.int64),
        stream=raw_tokens.astype(np.int32),
        logprobs=logprobs.astype(np.float32, copy=False),
        span_count=columns["spans"].astype(np.int64),
        span_version=spans[:half].astype(np.int64),
        span_length=spans[half:].astype(np.int64),
        temperature=columns["temperature"].astype(np.float64),
    )
    _verify(layout)
    return layout


def _array(sections: dict[str, bytes], name: str, kind: str) -> npt.NDArray[Any]:
    if len(sections[name]) % np.dtype(kind).itemsize:
        raise CorruptError(f"section {name} has {len(sections[name])} bytes")
    return np.frombuffer(sections[name], kind)


def _verify(layout: TokenLayout) -> None:
    """The lengths agree with each other, so that slicing can trust them."""
    context = layout.context
    faults = {
        "suffixes and generations do not fill the token stream": int((layout.suffix + layout.generated).sum())
        != len(layout.stream),
        "generations do not fill the logprobs": int(layout.generated.sum()) != len(layout.logprobs),
        "a call shares more than the previous context": layout.calls > 0
        and (int(layout.shared[0]) != 0 or bool((layout.shared[1:] > context[:-1]).any())),
        "spans do not fill the span section": int(layout.span_count.sum()) != len(layout.span_version),
    }
    for fault, found in faults.items():
        if found:
            raise CorruptError(f"token blob is inconsistent: {fault}")
    owner = np.repeat(np.arange(layout.calls), layout.span_count)
    if (np.bincount(owner, layout.span_length, layout.calls) != layout.generated).any():
        raise CorruptError("token blob is inconsistent: version spans do not cover the generations")
