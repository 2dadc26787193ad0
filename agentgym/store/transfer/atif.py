"""A trajectory in the Agent Trajectory Interchange Format (ATIF v1.7), token ids and logprobs included.

One agent step per call of the policy: its tool calls, what was observed, and under `metrics` the prompt's and the
generation's token ids and logprobs. What ATIF has no field for (sampling parameters, policy versions, verdicts, the patch)
rides in `extra.agentgym` as a string of JSON, so that an import gives back the same trajectory: ATIF's validators
refuse NaN and lone surrogates, which policies and broken terminals do produce, and a string hides them. In plain fields
such text is made printable.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import agentgym
from agentgym.store.detail import step_document
from agentgym.store.records import ModelCall, Trajectory
from agentgym.store.transfer.document import call_document, dumps, record_document
from agentgym.store.transfer.transcript import Message, Transcript, call_id, steps_by_call

SCHEMA_VERSION = "ATIF-v1.7"
OURS = "agentgym"
"""Key under `extra` that holds what ATIF cannot say."""


def to_atif(trajectory: Trajectory, transcript: Transcript, harness: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """JSON-ready; write it with `json.dumps`. harness: the document behind `harness_digest`, where the store has it."""
    steps = _opening(transcript.opening)
    by_call = steps_by_call(trajectory)
    for index, call in enumerate(trajectory.calls):
        turn = transcript.turns[index] if index < len(transcript.turns) else ()
        caused = by_call.get(index, [])
        steps.append(_agent_step(call, turn[0] if turn else {}, caused))
        observed = [step.observation for _, step in caused]
        between = [one for one in turn[1:] if one["role"] in _SOURCES and one.get("content") not in observed]
        steps += _opening(between)
    if not steps:
        ended = f"The episode ended before the policy was asked: {trajectory.termination} {trajectory.error or ''}"
        steps.append({"source": "system", "message": printable(ended.strip())})
    rest = {name: value for name, value in record_document(trajectory).items() if name != "steps"}
    rest |= {} if harness is None else {"harness": dict(harness)}
    return {
        "schema_version": SCHEMA_VERSION,
        "session_id": trajectory.run_id or trajectory.id,
        "trajectory_id": trajectory.id,
        "agent": {
            "name": "agentgym",
            "version": agentgym.__version__,
            "model_name": trajectory.model or trajectory.policy or None,
            "tool_definitions": [clean(tool) for tool in transcript.tools] or None,
        },
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": {
            "total_prompt_tokens": sum(len(call.prompt_token_ids) for call in trajectory.calls),
            "total_completion_tokens": sum(len(call.generation_token_ids) for call in trajectory.calls),
            "total_steps": len(steps),
        },
        "extra": {
            "task_id": trajectory.task_id,
            "termination": trajectory.termination.value,
            "reward": trajectory.reward,
            OURS: dumps(rest),
        },
    }


def _opening(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Steps for what stands before the first call, or what others say between two. What the agent said there was another
    trajectory's: copied context."""
    steps: list[dict[str, Any]] = []
    for message in messages:
        if source := _SOURCES.get(str(message["role"])):
            steps.append({"source": source, "message": _text(message)})
        elif message["role"] == "assistant":
            steps.append({"source": "agent", "message": _text(message), "is_copied_context": True})
        elif steps and steps[-1]["source"] == "agent":
            results = steps[-1].setdefault("observation", {"results": []})["results"]
            results.append({"content": _text(message)})
    return steps


_SOURCES = {"system": "system", "developer": "system", "user": "user"}


def _agent_step(call: ModelCall, said: Message, steps: list[tuple[int, Any]]) -> dict[str, Any]:
    called = [(index, step) for index, step in steps if step.tool]
    rest = {**call_document(call), "steps": [{"index": index, **step_document(step)} for index, step in steps]}
    shown: dict[str, Any] = {
        "source": "agent",
        "message": _text(said),
        "llm_call_count": 1,
        "metrics": {
            "prompt_tokens": len(call.prompt_token_ids),
            "completion_tokens": len(call.generation_token_ids),
            "prompt_token_ids": call.prompt_token_ids.tolist(),
            "completion_token_ids": call.generation_token_ids.tolist(),
            "logprobs": call.logprobs.tolist(),
        },
        "extra": {OURS: dumps(rest)},
    }
    if call.started_at:
        shown["timestamp"] = datetime.fromtimestamp(call.started_at, UTC).isoformat()
    if said.get("reasoning_content"):
        shown["reasoning_content"] = printable(str(said["reasoning_content"]))
    if called:
        shown["tool_calls"] = [
            {"tool_call_id": call_id(index), "function_name": step.tool, "arguments": clean(dict(step.arguments))}
            for index, step in called
        ]
    if steps:
        shown["observation"] = {
            "results": [
                {"source_call_id": call_id(index) if step.tool else None, "content": printable(step.observation)}
                for index, step in steps
            ]
        }
    return shown


def _text(message: Message) -> str:
    content = message.get("content") or ""
    return printable(content if isinstance(content, str) else json.dumps(content))


def printable(text: str) -> str:
    """The text with lone surrogates replaced; any other text as it is."""
    return text.encode("utf-8", "replace").decode("utf-8")


def clean(value: Any) -> Any:
    """A JSON value that every parser takes: no lone surrogates, no NaN, no infinities."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {printable(str(key)): clean(item) for key, item in value.items()}
    return [clean(item) for item in value] if isinstance(value, list | tuple) else value
