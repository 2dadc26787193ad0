"""Steps and trajectories as short as a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np

from agentgym.store.records import (
    FinishReason,
    ModelCall,
    PolicyKind,
    Sampling,
    Step,
    Termination,
    Trajectory,
    VersionSpan,
)


def sh(command: str, observation: str = "", code: int | None = 0) -> Step:
    return Step(0, "bash", {"command": command}, observation, exit_code=code)


def edit(command: str, path: str, text: str = "", code: int = 0) -> Step:
    return Step(0, "edit", {"command": command, "path": path, "new_str": text}, "", exit_code=code)


INVALID = Step(0, "", {}, "Error: no tool call found.", valid=False)
SUBMIT = Step(0, "submit", {}, "Submitted.", exit_code=0)


def trajectory(steps: tuple[Step, ...], *, version: int = 0, tokens: int = 2, **changes: Any) -> Trajectory:
    call = ModelCall(
        prompt_token_ids=np.array([1, 2, 3], np.int32),
        generation_token_ids=np.arange(tokens, dtype=np.int32),
        logprobs=np.full(tokens, -0.5, np.float32),
        sampling=Sampling(),
        policy_versions=(VersionSpan(version, 0, tokens),),
        finish_reason=FinishReason.STOP,
    )
    fields: dict[str, Any] = {
        "task_id": "task",
        "task_digest": "sha256:task",
        "harness_digest": "sha256:harness",
        "backend": "local",
        "image_digest": "sha256:image",
        "policy": "smollm2",
        "policy_kind": PolicyKind.MODEL,
        "calls": (call,),
        "steps": steps,
        "termination": Termination.SUBMITTED,
        "reward": 0.0,
        "run_id": "run",
        "timings": {"inference": 2.0, "tool": 1.0},
    }
    return Trajectory(**{**fields, **changes})
