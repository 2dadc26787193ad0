"""ATIF documents as trajectories: ours come back equal, anybody else's as exactly as they were recorded.

A foreign trajectory is evidence only if every agent step that called a model carries its prompt's token ids, its
completion's token ids and one logprob for each of these. Where any lacks them the calls are kept without tokens: such a
trajectory can be read, exported and replayed, and no trainer takes it (it has no action tokens). What ATIF does not say is
not invented: there is no verdict unless `extra.reward` gives one, and the policy version is 0. Steps marked
`is_copied_context` are another trajectory's and stay out of the calls.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

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
    logprob_array,
    record_from_document,
    token_array,
)
from agentgym.store.transfer.transcript import turn_of

_NAMESPACE = uuid.UUID("0f3c7f0e-6f1b-5b77-9d0e-2f0b8f0d6a51")
Document = Mapping[str, Any]


def from_atif(document: Document) -> tuple[Trajectory, Document, bool]:
    """The trajectory, the document its `harness_digest` names, and whether another program wrote it. Raises KeyError, TypeError
    or ValueError for what is no ATIF."""
    extra = document.get("extra") or {}
    if isinstance(extra.get(OURS), str):
        rest = json.loads(extra[OURS])
        return _ours(document, rest), rest.get("harness") or {}, False
    return *_foreign(document, extra), True


def _ours(document: Document, rest: dict[str, Any]) -> Trajectory:
    calls: list[ModelCall] = []
    steps: dict[int, Any] = {}
    for step in document["steps"]:
        if step["source"] != "agent" or step.get("is_copied_context"):
            continue
        metrics, own = step["metrics"], json.loads(step["extra"][OURS])
        steps |= {one.pop("index"): one for one in own["steps"]}
        prompt = token_array(metrics["prompt_token_ids"])
        calls.append(call_from_document(own, prompt, metrics["completion_token_ids"], metrics["logprobs"]))
    return record_from_document({**rest, "steps": [steps[index] for index in sorted(steps)]}, tuple(calls))


def _foreign(document: Document, extra: Document) -> tuple[Trajectory, Document]:
    agent = document["agent"]
    spoken = [step for step in document["steps"] if step["source"] == "agent" and not step.get("is_copied_context")]
    sampled = [step for step in spoken if step.get("llm_call_count") != 0]
    exact = bool(sampled) and all(map(_has_tokens, sampled))
    sampling = Sampling(temperature=float((agent.get("extra") or {}).get("temperature", 1.0)))
    calls: list[ModelCall] = []
    steps: list[Step] = []
    turns: list[Any] = []
    for one in spoken:
        if one.get("llm_call_count") != 0 or not calls:
            calls.append(_call(one, sampling, calls, exact=exact))
            turns.append([])
        caused = list(_steps(one, len(calls) - 1))
        turns[-1] += turn_of(_text(one["message"]), enumerate(caused, len(steps)))
        steps += caused
    harness = {"agent": {name: agent.get(name) for name in ("name", "version", "tool_definitions", "extra")}}
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    metadata = {
        "imported": {"format": document["schema_version"], "session_id": document.get("session_id"), "tokens": exact},
        "transcript": {
            "opening": list(_opening(document["steps"])),
            "turns": turns,
            "tools": agent.get("tool_definitions") or [],
        },
    }
    reward = extra.get("reward")
    times = [when for step in document["steps"] if (when := _seconds(step.get("timestamp"))) is not None]
    trajectory = Trajectory(
        task_id=str(extra.get("task_id") or document.get("session_id") or "imported"),
        task_digest="",
        harness_digest=digest_of(harness),
        backend="imported",
        image_digest="",
        policy=agent["name"],
        policy_kind=PolicyKind.MODEL,
        model=agent.get("model_name") or "",
        calls=tuple(calls),
        steps=tuple(steps),
        termination=Termination(extra.get("termination") or Termination.SUBMITTED),
        reward=None if reward is None else float(reward),
        run_id="imported",
        metadata=metadata,
        id=uuid.uuid5(_NAMESPACE, canonical).hex,
    )
    return replace(trajectory, created_at=min(times)) if times else trajectory, harness


def _has_tokens(step: Document) -> bool:
    metrics = step.get("metrics") or {}
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
        started_at=_seconds(step.get("timestamp")) or 0.0,
    )


def _steps(step: Document, call_index: int) -> Iterator[Step]:
    results = list((step.get("observation") or {}).get("results") or [])
    asked = step.get("tool_calls") or []
    for number, call in enumerate(asked):
        named = [one for one in results if one.get("source_call_id") == call["tool_call_id"]]
        loose = [one for one in results if one.get("source_call_id") is None] if number == len(asked) - 1 else []
        observation = "\n".join(_text(one.get("content") or "") for one in [*named, *loose])
        yield Step(call_index, call["function_name"], call["arguments"], observation)
    if results and not asked:
        observation = "\n".join(_text(one.get("content") or "") for one in results)
        yield Step(call_index, "", {}, observation, valid=False)


def _opening(steps: list[Document]) -> Iterator[Document]:
    """The messages before the agent first spoke for itself."""
    for step in steps:
        if step["source"] == "agent" and not step.get("is_copied_context"):
            return
        role = "assistant" if step["source"] == "agent" else step["source"]
        yield {"role": role, "content": _text(step["message"])}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(
        part["text"] if part["type"] == "text" else f"[{part['type']}: {part['source']['path']}]" for part in content
    )


def _seconds(timestamp: str | None) -> float | None:
    return None if timestamp is None else datetime.fromisoformat(timestamp).timestamp()
