"""Builders of records, and the databases the store suite runs on: SQLite always, PostgreSQL where it is installed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from servers import Postgres

from agentgym.store import Store
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
)

MakeCall = Callable[..., ModelCall]
MakeTrajectory = Callable[..., Trajectory]


def _make_call(
    prompt: Sequence[int], generation: Sequence[int], *spans: tuple[int, int], event: str = "append"
) -> ModelCall:
    """A call whose logprob of token t is -t/100; `spans` are (version, length), by default version 0 throughout."""
    spans = spans or (((0, len(generation)),) if generation else ())
    edges = np.cumsum([0, *(length for _, length in spans)]).tolist()
    return ModelCall(
        prompt_token_ids=np.array(prompt, np.int32),
        generation_token_ids=np.array(generation, np.int32),
        logprobs=-np.array(generation, np.float32) / 100,
        sampling=Sampling(temperature=0.7, seed=11),
        policy_versions=tuple(VersionSpan(version, edges[i], edges[i + 1]) for i, (version, _) in enumerate(spans)),
        finish_reason=FinishReason.STOP,
        context_event=ContextEvent(event),
        started_at=1.5,
        duration=0.25,
    )


def _make_trajectory(*calls: ModelCall, **changes: Any) -> Trajectory:
    """A sound trajectory; without calls, one of two calls and two steps."""
    calls = calls or (_make_call([1, 2, 3], [4, 5], (7, 1), (8, 1)), _make_call([1, 2, 3, 4, 5, 6], [70_000], (9, 1)))
    fields: dict[str, Any] = {
        "task_id": "tutorial",
        "task_digest": "sha256:task",
        "harness_digest": "sha256:harness",
        "backend": "local",
        "image_digest": "sha256:image",
        "policy": "smollm2",
        "policy_kind": PolicyKind.MODEL,
        "calls": calls,
        "steps": (
            Step(0, "bash", {"command": "ls"}, "a.py\nüñí\0\ud800\n", exit_code=0, duration=0.5, tree_hash="abc"),
            Step(0, "", {}, "no tool call found", valid=False),
        ),
        "termination": Termination.SUBMITTED,
        "reward": 1.0,
        "reward_vector": {"fail_to_pass": 1.0, "pass_to_pass": 0.5},
        "verdicts": {"tests/test_a.py::test_x": "passed"},
        "patch": "--- a\n+++ b\n",
        "timings": {"inference": 1.25},
        "run_id": "run",
        "metadata": {"note": ["x", 1, None]},
    }
    return Trajectory(**{**fields, **changes})


@pytest.fixture(scope="session")
def make_call() -> MakeCall:
    return _make_call


@pytest.fixture(scope="session")
def make_trajectory() -> MakeTrajectory:
    return _make_trajectory


@pytest.fixture(scope="session")
def postgres() -> Iterator[sa.URL]:
    server = Postgres("fsync=off", "max_connections=100")
    yield server.url
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    server: sa.URL = request.getfixturevalue("postgres")
    name = f"t{uuid.uuid4().hex}"
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    yield server.set(database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    engine.dispose()


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store.open(store_url) as opened:
        yield opened
