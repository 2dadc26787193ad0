"""The JSON of trajectories and tasks, one model per kind of thing."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from agentgym.observe.text import json_safe
from agentgym.store.filter import SUMMARY_FIELDS, TrajectorySummary
from agentgym.store.records import ModelCall
from agentgym.tasks import RegisteredTask

_EXAMPLE = {
    "id": "3f9a41d2c8e04b7fa1b2c3d4e5f60718",
    "run_id": "quickstart",
    "task_id": "tutorial-duration",
    "policy": "smollm2-135m-instruct",
    "termination": "submitted",
    "reward": 1.0,
    "calls": 6,
    "steps": 6,
    "tokens": 2814,
    "action_tokens": 402,
    "created_at": 1764000000.0,
}


class Summary(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})
    id: str
    run_id: str
    group_id: str
    parent_id: str | None = Field(description="The trajectory this one was forked from.")
    branch_step: int | None
    task_id: str
    task_digest: str
    split: str
    harness_digest: str
    backend: str
    image_digest: str
    policy: str
    policy_kind: str
    model: str
    termination: str = Field(description="Why the episode ended.")
    reward: float | None = Field(description="None where there is no verdict; never a zero.")
    seed: int | None
    version_min: int | None = Field(description="Oldest policy version that sampled a token.")
    version_max: int | None
    calls: int
    steps: int
    tokens: int = Field(description="Distinct tokens: prompts counted once.")
    action_tokens: int = Field(description="Tokens sampled by the policy.")
    created_at: float = Field(description="Unix seconds.")


class SummaryPage(BaseModel):
    total: int = Field(description="How many trajectories match in all.")
    items: list[Summary]
    next: str | None = Field(description="Pass as `cursor` for the next page; None at the end.")
    damaged: list[str] = Field(
        default=[], description="Ids of rows in this page that cannot be read; `agentgym store check` says why."
    )


class StepInfo(BaseModel):
    call_index: int = Field(description="Which call asked for it.")
    tool: str = Field(description="Empty where the generation held no parseable call.")
    arguments: dict[str, Any]
    observation: str = Field(description="The text shown to the policy.")
    valid: bool
    exit_code: int | None
    duration: float = Field(description="Seconds.")
    truncated: bool
    tree_hash: str | None


class Detail(BaseModel):
    error: str | None = Field(description="What failed, for the failure terminations.")
    reward_vector: dict[str, float]
    verdicts: dict[str, str] = Field(description="Test id -> passed | failed | error | skipped | missing.")
    patch: str
    timings: dict[str, float] = Field(description="Seconds per phase.")
    metadata: dict[str, Any]
    steps: list[StepInfo]


class CallInfo(BaseModel):
    prompt_token_ids: list[int]
    generation_token_ids: list[int]
    logprobs: list[float] = Field(description="Nats, one per generated token.")
    policy_versions: list[dict[str, int]] = Field(description="Spans {version, start, end} of generated tokens.")
    sampling: dict[str, Any]
    finish_reason: str
    context_event: str
    started_at: float
    duration: float


class CallList(BaseModel):
    calls: list[CallInfo]


class TaskInfo(BaseModel):
    id: str
    digest: str = Field(description="Content digest of this version.")
    status: str = Field(description="registered | valid | rejected | error")
    reason: str = Field(description="Why it is not valid.")
    split: str
    language: str
    difficulty: str
    source_kind: str
    registered_at: float = Field(description="Unix seconds.")
    manifest: dict[str, Any] = Field(description="What the registry keeps of the task.")


class TaskPage(BaseModel):
    total: int
    items: list[TaskInfo]
    next: str | None = Field(description="Pass as `cursor` for the next page; None at the end.")


def summary_of(summary: TrajectorySummary) -> Summary:
    return Summary.model_construct(**summary_document(summary))


def summary_document(summary: TrajectorySummary) -> dict[str, Any]:
    """`Summary` as JSON-ready dict: its values come from typed columns, and need no second check."""
    return json_safe({name: getattr(summary, name) for name in SUMMARY_FIELDS})


def call_of(call: ModelCall) -> CallInfo:
    return CallInfo(
        prompt_token_ids=call.prompt_token_ids.tolist(),
        generation_token_ids=call.generation_token_ids.tolist(),
        logprobs=call.logprobs.tolist(),
        policy_versions=[asdict(span) for span in call.policy_versions],
        sampling=asdict(call.sampling),
        finish_reason=call.finish_reason.value,
        context_event=call.context_event.value,
        started_at=call.started_at,
        duration=call.duration,
    )


def task_of(entry: RegisteredTask) -> TaskInfo:
    return TaskInfo(
        id=entry.id,
        digest=entry.digest,
        status=entry.status,
        reason=json_safe(entry.reason),
        split=entry.split,
        language=entry.language,
        difficulty=entry.difficulty,
        source_kind=entry.source_kind,
        registered_at=entry.registered_at,
        manifest=json_safe(dict(entry.manifest)),
    )
