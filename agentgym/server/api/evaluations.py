"""Evaluations: how often a run's policy solves tasks, with intervals, and whether it solves more than another's.

Computed from the columns of the store, for any run that has verdicts; measuring a policy anew is a run of kind `eval`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from agentgym.observe.success import Estimate, Outcomes, compare, pass_at_k
from agentgym.observe.text import json_safe
from agentgym.server.access.scopes import needs_read, needs_run
from agentgym.server.api.query import ALauncher, AStore, Text
from agentgym.server.api.runs import Run, launched
from agentgym.server.problem import described
from agentgym.server.repeat import IdempotentRoute
from agentgym.store import NotFoundError, Store, TrajectoryFilter
from agentgym.store.engine import reading
from agentgym.store.schema import trajectory as rows

HELD_OUT = "held-out"
router = APIRouter(tags=["evaluations"], route_class=IdempotentRoute, responses=described(401, 403, 404, 409, 422, 429))
_EXAMPLE: dict[str, Any] = {"config": {"model": "smollm2-135m-instruct", "rollouts": 4}}


class NewEvaluation(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})
    config: dict[str, Any] = Field(default_factory=dict, description="Options of `agentgym eval`, as in its TOML file.")
    id: str | None = Field(default=None, description="Name of the run; made from the time where none is given.")


class EvaluatedRun(BaseModel):
    run_id: str
    episodes: int
    tasks: int
    at: float = Field(description="Of the newest episode, unix seconds.")


class EvaluationList(BaseModel):
    items: list[EvaluatedRun]


class Evaluation(BaseModel):
    run_id: str
    split: str | None
    estimates: dict[str, dict[str, float]] = Field(
        description="pass@1, pass@2, …: value, low, high (95 %), tasks, episodes."
    )
    tasks: dict[str, dict[str, int]] = Field(description="Per task: solved, graded, ungraded.")
    against: str | None
    comparison: dict[str, float] | None = Field(
        description="This run (B) against the other (A), paired by task; null without one, or without a task in common."
    )


@router.get("/evaluations", dependencies=[Depends(needs_read)])
def list_evaluations(store: AStore, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> EvaluationList:
    """Runs with episodes on held-out tasks, newest first. Any run may be asked for by its name."""
    newest = sa.func.max(rows.c.created_at).label("at")
    query = sa.select(
        rows.c.run_id,
        sa.func.count().label("episodes"),
        sa.func.count(sa.distinct(rows.c.task_id)).label("tasks"),
        newest,
    )
    query = query.where(rows.c.split == HELD_OUT).group_by(rows.c.run_id).order_by(newest.desc()).limit(limit)
    with reading(store.engine) as connection:
        found = connection.execute(query).mappings().all()
    return EvaluationList(items=[EvaluatedRun(**json_safe(dict(one))) for one in found])


@router.post("/evaluations", status_code=201, dependencies=[Depends(needs_run)])
def launch_evaluation(body: NewEvaluation, store: AStore, launcher: ALauncher) -> Run:
    """Measure a policy: a run of kind `eval`."""
    return launched(store, launcher, "eval", body.config, body.id)


@router.get("/evaluations/{run_id}", dependencies=[Depends(needs_read)])
def get_evaluation(
    run_id: str,
    store: AStore,
    split: Annotated[Text, Query(description="Only tasks of this split.", examples=[HELD_OUT])] = None,
    against: Annotated[Text, Query(description="Another run, to compare with.")] = None,
) -> Evaluation:
    """pass@1 and unbiased pass@k of a run with 95 % intervals; failures of the environment are counted apart."""
    mine = _outcomes(store, run_id, split)
    found = None if against is None else compare(_outcomes(store, against, split), mine)
    content = {
        "run_id": run_id,
        "split": split,
        "estimates": _estimates(mine),
        "tasks": {task: asdict(counts) for task, counts in mine.counts.items()},
        "against": against,
        "comparison": None if found is None else asdict(found),
    }
    return Evaluation(**json_safe(content))


def _outcomes(store: Store, run_id: str, split: str | None) -> Outcomes:
    found = Outcomes.of(store.query(TrajectoryFilter(run_id=run_id, split=split))) if "\0" not in run_id else None
    if found is None or not found.counts:
        where = f"no episode of run {run_id!r}" + (f" on tasks of split {split!r}" if split else "")
        raise NotFoundError(where, hint="GET /v1/runs lists them")
    return found


def _estimates(outcomes: Outcomes) -> dict[str, dict[str, float]]:
    """pass@k for every power of two that all tasks have verdicts for."""
    most = min((counts.graded for counts in outcomes.graded.values()), default=0)
    found: dict[str, Estimate | None] = {
        f"pass@{1 << e}": pass_at_k(outcomes, 1 << e) for e in range(most.bit_length())
    }
    return {name: asdict(one) for name, one in found.items() if one is not None}
