"""Training runs: which there are, and what each measured, by the question that it answers."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from agentgym.observe.text import json_safe
from agentgym.server.access.scopes import needs_read
from agentgym.server.api.query import ALauncher, AStore
from agentgym.server.problem import described
from agentgym.server.runs.training import questions, trained_runs

router = APIRouter(tags=["training"], dependencies=[Depends(needs_read)], responses=described(401, 403, 404, 422, 429))


class TrainedRunInfo(BaseModel):
    run_id: str
    updates: int = Field(description="Updates that the store has numbers of.")
    step: int = Field(description="The newest of them.")
    at: float = Field(description="When it was, unix seconds.")


class TrainedRunList(BaseModel):
    items: list[TrainedRunInfo]


class LineData(BaseModel):
    name: str
    y: list[float | None] = Field(description="As long as the chart's x; null where there is nothing.")


class ChartData(BaseModel):
    title: str
    unit: str
    x_label: str
    x: list[float]
    lines: list[LineData]


class QuestionData(BaseModel):
    name: str
    asks: str
    charts: list[ChartData]


class Training(BaseModel):
    run_id: str
    questions: list[QuestionData]


@router.get("/training")
def list_training(store: AStore) -> TrainedRunList:
    """Every run with numbers of training in the store, newest first."""
    return TrainedRunList(items=[TrainedRunInfo(**json_safe(asdict(one))) for one in trained_runs(store)])


@router.get("/training/{run_id}")
def get_training(run_id: str, store: AStore, launcher: ALauncher) -> Training:
    """What a training run measured: credit, fidelity, freshness, environment, and the rest; long runs thinned."""
    found = questions(store, run_id, launcher.find(run_id))
    return Training(run_id=json_safe(run_id), questions=[QuestionData(**json_safe(asdict(one))) for one in found])
