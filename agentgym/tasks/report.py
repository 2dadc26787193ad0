"""The verdict of a validation, as it is stored and shown."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field


class StageTimes(BaseModel):
    """Wall time of each stage, in seconds."""

    model_config = ConfigDict(extra="forbid")
    build: float = 0.0
    leaks: float = 0.0
    gold: list[float] = Field(default_factory=list)
    empty: list[float] = Field(default_factory=list)


class Grading(Protocol):
    """What is measured of one grading: seconds, and MiB where something counts them."""

    @property
    def duration(self) -> float: ...
    @property
    def peak_memory_mb(self) -> float | None: ...


class Measured(BaseModel):
    """The most that a grading of the gold patch or of none took, and the limits that leave it room.

    seconds: with the start of the sandbox. verifier_timeout_s: five times that, at least 30. memory_mb: half as much
    again as the peak, in steps of 64, at least 256; None where the sandbox's memory cannot be measured.
    """

    model_config = ConfigDict(extra="forbid")
    seconds: float = 0.0
    peak_memory_mb: float | None = None
    verifier_timeout_s: float = 30.0
    memory_mb: int | None = None

    @classmethod
    def of(cls, gradings: Iterable[Grading]) -> Measured:
        gradings = list(gradings)
        seconds = max(one.duration for one in gradings)
        peaks = [one.peak_memory_mb for one in gradings if one.peak_memory_mb is not None]
        return cls(
            seconds=round(seconds, 3),
            peak_memory_mb=round(max(peaks), 1) if peaks else None,
            verifier_timeout_s=max(30.0, math.ceil(5 * seconds)),
            memory_mb=max(256, 64 * math.ceil(1.5 * max(peaks) / 64)) if peaks else None,
        )


class ValidationReport(BaseModel):
    """What validating one task on one backend found.

    status: `valid`; `rejected`: the task is at fault, `reason` says how; `error`: the machine was, try again.
    flaky: tests whose verdict changed between repeats under the very same conditions. sensitive: tests whose verdict
    changed with their order, the hash seed or the time zone, which grading pins; allowed for PASS_TO_PASS only.
    judge: what the verdicts were read from, see `Grade.judge`.
    """

    model_config = ConfigDict(extra="forbid")
    task_id: str
    task_digest: str
    environment_digest: str
    backend: str
    status: Literal["valid", "rejected", "error"]
    reason: str = ""
    judge: str = ""
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
    measured: Measured = Field(default_factory=Measured)
