"""The data contract: what one episode leaves behind.

`ModelCall` is the only unit of truth about tokens. A `Trajectory` is its calls, the steps they caused, and how it
ended. Everything a learner eats is *derived* from calls (see `agentgym.store.sequences`), never stored as truth; text
is for people. Records are frozen; token arrays are one-dimensional numpy arrays and must not be written to.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]
Float32Array = npt.NDArray[np.float32]


class FinishReason(StrEnum):
    """Why a generation stopped."""

    STOP = "stop"
    """The policy sampled a stop token (it is the last generation token)."""
    LENGTH = "length"
    """The token budget of the call or the context window cut it."""
    ABORT = "abort"
    """The server or the episode cut it (weight update, cancellation)."""


class ContextEvent(StrEnum):
    """How a call's prompt relates to the call before it."""

    APPEND = "append"
    """Previous prompt + previous generation + new tokens: the sequence goes on."""
    COMPACTED = "compacted"
    TRUNCATED = "truncated"
    REWRITTEN = "rewritten"


class Termination(StrEnum):
    """Why an episode ended. The last three are never a policy's zero: their reward is None."""

    SUBMITTED = "submitted"
    TESTS_PASSED = "tests_passed"
    MAX_STEPS = "max_steps"
    MAX_TOKENS = "max_tokens"
    CONTEXT_EXHAUSTED = "context_exhausted"
    TIME_LIMIT = "time_limit"
    REPEATED_ACTIONS = "repeated_actions"
    INVALID_ACTIONS = "invalid_actions"
    ENVIRONMENT_FAILURE = "environment_failure"
    POLICY_FAILURE = "policy_failure"
    CANCELLED = "cancelled"

    @property
    def is_budget(self) -> bool:
        """True where a budget cut the episode: truncated, not terminated, so a learner bootstraps from V."""
        return self in (
            Termination.MAX_STEPS,
            Termination.MAX_TOKENS,
            Termination.CONTEXT_EXHAUSTED,
            Termination.TIME_LIMIT,
        )

    @property
    def is_failure(self) -> bool:
        """True where something other than the policy ended the episode: no reward, no trainer reads it."""
        return self in (Termination.ENVIRONMENT_FAILURE, Termination.POLICY_FAILURE, Termination.CANCELLED)


class PolicyKind(StrEnum):
    """What produced the tokens. Only `MODEL` trajectories are evidence about a model policy."""

    MODEL = "model"
    SCRIPTED = "scripted"


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of one call. `logprobs` are those of exactly this distribution."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class VersionSpan:
    """Generation tokens [start, end) were sampled from policy `version`."""

    version: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class ModelCall:
    """One request to a policy.

    prompt_token_ids: int32[P], exactly what the policy saw.
    generation_token_ids: int32[G], exactly what it sampled, with the stop token.
    logprobs: float32[G], nats, of the distribution really sampled from.
    policy_versions: spans that cover [0, G) without gaps, in order.
    started_at: unix seconds. duration: seconds.
    """

    prompt_token_ids: Int32Array
    generation_token_ids: Int32Array
    logprobs: Float32Array
    sampling: Sampling
    policy_versions: tuple[VersionSpan, ...]
    finish_reason: FinishReason
    context_event: ContextEvent = ContextEvent.APPEND
    started_at: float = 0.0
    duration: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call as the policy experienced it.

    call_index: which ModelCall asked for it. tool: name, "" where the generation held no parseable call.
    observation: the text exactly as shown to the policy. tree_hash: git tree of the workspace after it, where known.
    valid: False for a malformed or unknown call (the observation carries the error).
    """

    call_index: int
    tool: str
    arguments: Mapping[str, Any]
    observation: str
    valid: bool = True
    exit_code: int | None = None
    duration: float = 0.0
    truncated: bool = False
    tree_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One finished episode, whole or not at all.

    task_digest, harness_digest, image_digest: content digests ("sha256:..."); the harness document itself (prompt, tool
    schemas, limits) is stored once under its digest. reward: None where no verdict exists. verdicts: test id ->
    "passed" | "failed" | "error" | "skipped" | "missing". timings: seconds per phase (queue, start, inference, tool,
    grade).
    error: what failed, for the failure terminations. parent_id, branch_step: the trajectory this one goes on from, and how
    many of that one's own steps come before. A child holds only calls and steps of its own: the first call's prompt is the
    parent's exact tokens there, so a loss over its sequences is one over the suffix. Patch and verdicts are of the whole.
    """

    task_id: str
    task_digest: str
    harness_digest: str
    backend: str
    image_digest: str
    policy: str
    policy_kind: PolicyKind
    calls: tuple[ModelCall, ...]
    steps: tuple[Step, ...]
    termination: Termination
    reward: float | None
    reward_vector: Mapping[str, float] = field(default_factory=dict)
    verdicts: Mapping[str, str] = field(default_factory=dict)
    patch: str = ""
    timings: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    run_id: str = ""
    group_id: str = ""
    split: str = ""
    seed: int | None = None
    model: str = ""
    parent_id: str | None = None
    branch_step: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: float = field(default_factory=time.time)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


def first_call_at(trajectory: Trajectory, step: int) -> int:
    """The call that asked for step `step`, or would have, behind the last one."""
    steps = trajectory.steps
    if step < len(steps):
        return steps[step].call_index
    return steps[-1].call_index + 1 if steps else 0


def digest_of(harness: Mapping[str, Any]) -> str:
    """What `harness_digest` says of its document."""
    canonical = json.dumps(harness, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()
