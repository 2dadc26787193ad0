"""ATIF documents as trajectories: ours come back equal, anybody else's as exactly as they were recorded.

A foreign trajectory is evidence only if every agent step that called a model carries its prompt's token ids, its
completion's token ids and one logprob for each of these. Where any lacks them the calls are kept without tokens: such a
trajectory can be read, exported and replayed, and no trainer takes it (it has no action tokens). What ATIF does not say is
not invented: there is no verdict unless `extra.reward` gives one, and the policy version is 0. Steps marked
`is_copied_context` are another trajectory's and stay out of the calls. A value of another kind is refused, never converted.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from typing import Any

from agentgym.store.kinds import fits, require_kinds
from agentgym.store.layout import shared_prefix
from agentgym.store.records import (
    ContextEvent,
    FinishReason,
    ModelCall,
    PolicyKind,
    Sampling,
    Step,
    Termination,
    Trajectory,
    VersionSpan,
    digest_of,
)
from agentgym.store.transfer.atif import OURS
from agentgym.store.transfer.document import (
    call_from_document,
    harness_of,
    list_of,
    logprob_array,
    record_from_document,
    token_array,
)
from agentgym.store.transfer.transcript import turn_of

_NAMESPACE = uuid.UUID("0f3c7f0e-6f1b-5b77-9d0e-2f0b8f0d6a51")
Document = Mapping[str, Any]


def from_atif(document: Document) -> tuple[Trajectory, Document | None, bool]:
    """The trajectory, the document its `harness_digest` names, and whether another program wrote it. Raises KeyError, TypeError,
    ValueError or OverflowError for what is no ATIF."""
    extra = _value(document, "extra", dict, {})
    if isinstance(extra.get(OURS), str):
        rest = json.loads(extra[OURS])
        shown = {**extra, "id": document.get("trajectory_id", rest["id"])}
        for name in ("id", "task_id", "termination", "reward"):
            if name in shown and shown[name] != rest[name]:
                raise ValueError(f"{name} is {shown[name]!r:.80} to see and {rest[name]!r:.80} in extra.{OURS}")
        return _ours(document, rest), harness_of(rest), False
    return *_foreign(document, extra), True


def _ours(document: Document, rest: dict[str, Any]) -> Trajectory:
    calls: list[ModelCall] = []
    steps: list[tuple[int, Any]] = []
    for step in list_of(document, "steps"):
        if not _is_own(step):
            continue
        metrics, own = step["metrics"], json.loads(step["extra"][OURS])
        steps += [(one.pop("index"), one) for one in list_of(own, "steps")]
        prompt = token_array(metrics["prompt_token_ids"])
        calls.append(call_from_document(own, prompt, metrics["completion_token_ids"], metrics["logprobs"]))
    steps.sort(key=itemgetter(0))
    if [index for index, _ in steps] != list(range(len(steps))):
        raise ValueError(f"the indices of the steps are {[index for index, _ in steps]!r:.80}")
    return record_from_document({**rest, "steps": [step for _, step in steps]}, tuple(calls))


def _foreign(document: Document, extra: Document) -> tuple[Trajectory, Document]:
    agent = document["agent"]
    told = list_of(document, "steps")
    sampled = [step for step in told if _is_own(step) and _asked(step)]
    exact = bool(sampled) and all(map(_has_tokens, sampled))
    temperature = _said(agent.get("extra"), "temperature", float, 1.0)
    tools = _value(agent, "tool_definitions", list[dict], [])
    calls: list[ModelCall] = []
    steps: list[Step] = []
    opening: list[Any] = []
    turns: list[Any] = []
    for one in told:
        if not _is_own(one):
            if not turns:
                opening.append(_message(one))
            elif one["source"] != "agent":
                turns[-1].append(_message(one))
            continue
        if _asked(one) or not calls:
            calls.append(_call(one, Sampling(temperature=float(temperature)), calls, exact=exact))
            turns.append([])
        caused = list(_steps(one, len(calls) - 1))
        turns[-1] += turn_of(_text(one["message"]), enumerate(caused, len(steps)))
        steps += caused
    harness = {"agent": {name: agent.get(name) for name in ("name", "version", "tool_definitions", "extra")}}
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    session = _value(document, "session_id", str, "")
    metadata = {
        "imported": {"format": document["schema_version"], "session_id": session, "tokens": exact},
        "transcript": {"opening": opening, "turns": turns, "tools": tools},
    }
    reward = _said(extra, "reward", float)
    ended = _said(extra, "termination", str)
    times = [when for step in told if (when := _seconds(step)) is not None]
    trajectory = Trajectory(
        task_id=_said(extra, "task_id", str, "") or session or "imported",
        task_digest="",
        harness_digest=digest_of(harness),
        backend="imported",
        image_digest="",
        policy=agent["name"],
        policy_kind=PolicyKind.MODEL,
        model=_value(agent, "model_name", str, ""),
        calls=tuple(calls),
        steps=tuple(steps),
        termination=Termination(ended) if ended in set(Termination) else Termination.SUBMITTED,
        reward=None if reward is None else float(reward),
        run_id="imported",
        metadata=metadata,
        id=uuid.uuid5(_NAMESPACE, canonical).hex,
    )
    return replace(trajectory, created_at=min(times)) if times else trajectory, harness


def _value(document: Document, name: str, hint: Any, default: Any = None) -> Any:
    """The value of a field, the default where it is absent or null. Raises TypeError for one of another kind."""
    value = document.get(name)
    if value is None:
        return default
    if not fits(value, hint):
        raise TypeError(f"{name} is {value!r:.80}")
    return value


def _said(extra: Any, name: str, hint: Any, default: Any = None) -> Any:
    """What another program's own `extra` says under a name of ours; the default where it means something else by it."""
    value = extra.get(name) if isinstance(extra, Mapping) else None
    return value if value is not None and fits(value, hint) else default


def _is_own(step: Document) -> bool:
    """Whether the agent of this trajectory took the step. Raises ValueError for a source that ATIF does not have."""
    if step["source"] not in ("system", "user", "agent"):
        raise ValueError(f"source is {step['source']!r:.80}")
    return step["source"] == "agent" and not _value(step, "is_copied_context", bool, False)


def _asked(step: Document) -> bool:
    """Whether the agent asked its model."""
    return _value(step, "llm_call_count", int, 1) != 0


def _has_tokens(step: Document) -> bool:
    metrics = _value(step, "metrics", dict, {})
    prompt, sampled, logprobs = (metrics.get(name) for name in ("prompt_token_ids", "completion_token_ids", "logprobs"))
    return bool(prompt) and sampled is not None and logprobs is not None and len(sampled) == len(logprobs)


def _call(step: Document, sampling: Sampling, before: list[ModelCall], *, exact: bool) -> ModelCall:
    metrics = (step.get("metrics") or {}) if exact else {}
    prompt, sampled = token_array(metrics.get("prompt_token_ids") or []), metrics.get("completion_token_ids") or []
    event = ContextEvent.APPEND
    if before:
        context = len(before[-1].prompt_token_ids) + len(before[-1].generation_token_ids)
        event = ContextEvent.APPEND if shared_prefix(prompt, before[-1]) == context else ContextEvent.REWRITTEN
    return ModelCall(
        prompt_token_ids=prompt,
        generation_token_ids=token_array(sampled),
        logprobs=logprob_array(metrics.get("logprobs") or []),
        sampling=sampling,
        policy_versions=(VersionSpan(0, 0, len(sampled)),) if sampled else (),
        finish_reason=FinishReason.STOP,
        context_event=event,
        started_at=_seconds(step) or 0.0,
    )


def _steps(step: Document, call_index: int) -> Iterator[Step]:
    results = _results(step)
    asked = _value(step, "tool_calls", list[dict], [])
    known = [None, *(call["tool_call_id"] for call in asked)]
    for name in (one.get("source_call_id") for one in results):
        if asked and name not in known:
            raise ValueError(f"source_call_id {name!r:.80} is no tool call of its step")
    for number, call in enumerate(asked):
        named = [one for one in results if one.get("source_call_id") == call["tool_call_id"]]
        loose = [one for one in results if one.get("source_call_id") is None] if number == len(asked) - 1 else []
        require_kinds(Step, {"tool": call["function_name"], "arguments": call["arguments"]})
        yield Step(call_index, call["function_name"], call["arguments"], _joined([*named, *loose]))
    if results and not asked:
        yield Step(call_index, "", {}, _joined(results), valid=False)


def _results(step: Document) -> list[Document]:
    return _value(_value(step, "observation", dict, {}), "results", list[dict], [])


def _joined(results: list[Document]) -> str:
    return "\n".join(_text(_value(one, "content", str | list, "")) for one in results)


def _message(step: Document) -> Document:
    """What somebody else said, or the agent of another trajectory."""
    said = "\n".join(text for text in (_text(step["message"]), _joined(_results(step))) if text)
    return {"role": "assistant" if step["source"] == "agent" else step["source"], "content": said}


def _text(content: Any) -> str:
    if not fits(content, str | list[dict]):
        raise TypeError(f"a message or an observation is {content!r:.80}")
    if isinstance(content, str):
        return content
    return "\n".join(
        part["text"] if part["type"] == "text" else f"[{part['type']}: {part['source']['path']}]" for part in content
    )


def _seconds(step: Document) -> float | None:
    timestamp = _value(step, "timestamp", str)
    return None if timestamp is None else datetime.fromisoformat(timestamp).timestamp()
