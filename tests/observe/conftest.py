"""The columns of a trajectory, as short as a sentence; steps and whole trajectories are built by `tests/observe_steps.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentgym.store.filter import TrajectorySummary
from agentgym.store.records import PolicyKind, Termination


@pytest.fixture
def summary() -> Callable[..., TrajectorySummary]:
    def make(**changes: Any) -> TrajectorySummary:
        fields: dict[str, Any] = dict.fromkeys(TrajectorySummary.__slots__, "")
        fields |= {"policy_kind": PolicyKind.MODEL, "termination": Termination.SUBMITTED, "reward": 0.0, "id": "one"}
        fields |= dict.fromkeys(("calls", "steps", "tokens", "action_tokens", "version_max"), 1)
        return TrajectorySummary(**{**fields, **changes})

    return make
