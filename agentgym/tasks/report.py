"""The verdict of a validation, as it is stored and shown."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class StageTimes(BaseModel):
    """Wall time of each stage, in seconds."""

    model_config = ConfigDict(extra="forbid")
    build: float = 0.0
    leaks: float = 0.0
    gold: list[float] = Field(default_factory=list)
    empty: list[float] = Field(default_factory=list)


class ValidationReport(BaseModel):
    """What validating one task on one backend found.

    status: `valid`; `rejected`: the task is at fault, `reason` says how; `error`: the machine was, try again.
    flaky: tests whose verdict changed between repeats under the very same conditions. sensitive: tests whose verdict
    changed with the hash seed or the time zone, which grading pins; allowed for PASS_TO_PASS only.
    """

    model_config = ConfigDict(extra="forbid")
    task_id: str
    task_digest: str
    environment_digest: str
    backend: str
    status: Literal["valid", "rejected", "error"]
    reason: str = ""
    repeats: int = 0
    fail_to_pass: int = 0
    pass_to_pass: int = 0
    gold_rewards: list[float | None] = Field(default_factory=list)
    empty_rewards: list[float | None] = Field(default_factory=list)
    flaky: list[str] = Field(default_factory=list)
    sensitive: list[str] = Field(default_factory=list)
    leaks: list[str] = Field(default_factory=list)
    seconds: float = 0.0
    times: StageTimes = Field(default_factory=StageTimes)
