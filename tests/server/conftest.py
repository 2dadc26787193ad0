"""A server over a store with a few trajectories, one of them as hostile as a sandbox can make it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from agentgym.server import create_app
from agentgym.store import Store
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
from agentgym.tasks import shipped_tasks

HOSTILE = "</pre><script>alert(1)</script>\x1b[31mred\x00\udc80\u202egnp.exe {{ 7*7 }} <img src=x onerror=alert(2)>"


def _trajectory(**changes: Any) -> Trajectory:
    call = ModelCall(
        prompt_token_ids=np.array([1, 2, 3], np.int32),
        generation_token_ids=np.array([40_004, 5], np.int32),
        logprobs=np.array([-0.25, -1.5], np.float32),
        sampling=Sampling(),
        policy_versions=(VersionSpan(7, 0, 1), VersionSpan(8, 1, 2)),
        finish_reason=FinishReason.STOP,
    )
    fields: dict[str, Any] = {
        "task_id": "tutorial",
        "task_digest": "sha256:task",
        "harness_digest": "sha256:harness",
        "backend": "local",
        "image_digest": "sha256:image",
        "policy": "smollm2",
        "policy_kind": PolicyKind.MODEL,
        "calls": (call,),
        "steps": (Step(0, "bash", {"command": "ls"}, "a.py\n", exit_code=0),),
        "termination": Termination.SUBMITTED,
        "reward": 1.0,
        "run_id": "run",
    }
    return Trajectory(**{**fields, **changes})


@pytest.fixture(scope="session")
def build() -> Any:
    """Makes a trajectory; what is not named is as usual."""
    return _trajectory


@pytest.fixture(scope="session")
def recorded() -> list[Trajectory]:
    """good (newest), failed and hostile."""
    failed = _trajectory(
        id="failed",
        created_at=2.0,
        termination=Termination.ENVIRONMENT_FAILURE,
        reward=None,
        error="engine died",
        calls=(),
        steps=(),
        run_id="other",
    )
    step = Step(0, "<b>bash</b>", {"command": HOSTILE, "n": float("nan")}, HOSTILE, valid=False)
    return [
        _trajectory(id="good", created_at=3.0, verdicts={"t::a": "passed", "t::b": "failed"}, patch="+x"),
        failed,
        _trajectory(id="hostile", created_at=1.0, steps=(step,), task_id="<i>task</i>", patch=HOSTILE),
    ]


@pytest.fixture
def filled(tmp_path: Path, recorded: list[Trajectory]) -> Path:
    """The path of a store with these trajectories."""
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        for one in recorded:
            store.add(one)
    return path


@pytest.fixture(scope="session")
def task_directory() -> Path:
    return shipped_tasks()[0]


@pytest.fixture
async def client(filled: Path) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=create_app(str(filled)), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as opened:
        yield opened
