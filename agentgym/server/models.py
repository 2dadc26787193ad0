"""The JSON that the API answers with, one model per kind of thing."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, Field

from agentgym.observe.text import json_safe
from agentgym.store.detail import step_document
from agentgym.store.filter import TrajectorySummary
from agentgym.store.records import ModelCall, Trajectory


class Health(BaseModel):
    status: str = Field(description="`ok` where the store answers.")
    version: str = Field(description="Version of agentgym.")
    schema_version: str = Field(description="Schema of the store.")
    trajectories: int = Field(description="How many trajectories are stored.")


class Problem(BaseModel):
    error: str = Field(description="What was wrong, with the value that was.")
    hint: str | None = Field(default=None, description="What to do about it.")


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


class TaskList(BaseModel):
    tasks: list[TaskInfo]


class Summary(BaseModel):
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
    trajectories: list[Summary]
    next: str | None = Field(description="Pass as `after` for the next page; None at the end.")


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


class TrajectoryInfo(Summary):
    error: str | None = Field(description="What failed, for the failure terminations.")
    reward_vector: dict[str, float]
    verdicts: dict[str, str] = Field(description="Test id -> passed | failed | error | skipped | missing.")
    patch: str
    timings: dict[str, float] = Field(description="Seconds per phase.")
    metadata: dict[str, Any]
    step_list: list[StepInfo]
    call_list: list[CallInfo] | None = Field(description="Every call with its tokens; None with `tokens=false`.")


def summary_of(summary: TrajectorySummary) -> Summary:
    return Summary(**asdict(summary))


def trajectory_of(summary: TrajectorySummary, trajectory: Trajectory, *, tokens: bool) -> TrajectoryInfo:
    content = {
        **asdict(summary),
        "error": trajectory.error,
        "reward_vector": dict(trajectory.reward_vector),
        "verdicts": dict(trajectory.verdicts),
        "patch": trajectory.patch,
        "timings": dict(trajectory.timings),
        "metadata": dict(trajectory.metadata),
        "step_list": [step_document(step) for step in trajectory.steps],
    }
    calls = [_call_of(call) for call in trajectory.calls] if tokens else None
    return TrajectoryInfo(**json_safe(content), call_list=calls)


def _call_of(call: ModelCall) -> CallInfo:
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
