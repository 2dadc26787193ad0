"""The JSON routes. All of them read; filters are those of `TrajectoryFilter`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BeforeValidator

import agentgym
from agentgym.errors import InputError
from agentgym.observe.text import json_safe
from agentgym.server.models import (
    Health,
    Problem,
    SummaryPage,
    TaskInfo,
    TaskList,
    TrajectoryInfo,
    summary_of,
    trajectory_of,
)
from agentgym.store import NotFoundError, Store, TrajectoryFilter
from agentgym.store.filter import TrajectorySummary
from agentgym.store.records import PolicyKind, Termination
from agentgym.store.schema import SCHEMA_VERSION
from agentgym.tasks import RegisteredTask, Registry, TaskError

PAGE = 50
router = APIRouter(responses={404: {"model": Problem}, 422: {"model": Problem}})


def store_of(request: Request) -> Store:
    return request.app.state.store


def registry_of(request: Request) -> Registry:
    return request.app.state.registry


AStore = Annotated[Store, Depends(store_of)]
ARegistry = Annotated[Registry, Depends(registry_of)]


def _given(value: Any) -> Any:
    """Nothing where a form field was left blank. NUL is in no column, and PostgreSQL takes none in a comparison."""
    if isinstance(value, list):
        return [one for one in value if one != ""]
    if isinstance(value, str) and "\0" in value:
        raise ValueError("holds NUL")
    return value or None


_given_first = BeforeValidator(_given)
Text = Annotated[str | None, _given_first]
Number = Annotated[float | None, _given_first]
Whole = Annotated[int | None, _given_first]


def wanted(
    run_id: Text = None,
    group_id: Text = None,
    task_id: Text = None,
    split: Text = None,
    policy: Text = None,
    policy_kind: Annotated[PolicyKind | None, _given_first] = None,
    harness_digest: Text = None,
    parent_id: Text = None,
    termination: Annotated[list[Termination], _given_first, Query(description="Any of these.")] = [],  # noqa: B006
    reward_min: Number = None,
    reward_max: Number = None,
    has_reward: Annotated[bool | None, _given_first] = None,
    version_min: Whole = None,
    version_max: Whole = None,
    created_after: Annotated[float | None, _given_first, Query(description="Unix seconds, inclusive.")] = None,
    created_before: Annotated[float | None, _given_first, Query(description="Unix seconds, exclusive.")] = None,
    trainable: Annotated[bool, Query(description="Only what a trainer reads.")] = False,
    oldest_first: bool = False,
    after: Annotated[str | None, _given_first, Query(description="`next` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
) -> TrajectoryFilter:
    return TrajectoryFilter(
        run_id=run_id,
        group_id=group_id,
        task_id=task_id,
        split=split,
        policy=policy,
        policy_kind=policy_kind,
        harness_digest=harness_digest,
        parent_id=parent_id,
        terminations=tuple(termination),
        reward_min=reward_min,
        reward_max=reward_max,
        has_reward=has_reward,
        version_min=version_min,
        version_max=version_max,
        created_after=created_after,
        created_before=created_before,
        trainable=trainable,
        newest_first=not oldest_first,
        after=_position(after),
        limit=limit,
    )


Wanted = Annotated[TrajectoryFilter, Depends(wanted)]


def _position(cursor: str | None) -> tuple[float, str] | None:
    if cursor is None:
        return None
    created_at, _, trajectory_id = cursor.partition("~")
    try:
        return float(created_at), trajectory_id
    except ValueError:
        raise InputError(f"after={cursor!r} is not the `next` of a page") from None


def next_cursor(page: list[TrajectorySummary], where: TrajectoryFilter) -> str | None:
    """What to pass as `after`; None where the page was not full."""
    return f"{page[-1].created_at!r}~{page[-1].id}" if page and len(page) == where.limit else None


@router.get("/health")
def health(store: AStore) -> Health:
    """Whether the store answers."""
    return Health(status="ok", version=agentgym.__version__, schema_version=SCHEMA_VERSION, trajectories=store.count())


@router.get("/tasks")
def tasks(registry: ARegistry, split: str | None = None, source: str | None = None) -> TaskList:
    """The newest version of every registered task."""
    return TaskList(tasks=[_task(entry) for entry in registry.list(split=split, source=source)])


@router.get("/tasks/{task_id:path}")
def task(task_id: str, registry: ARegistry) -> TaskInfo:
    """One task by id or digest."""
    try:
        return _task(registry.get(task_id))
    except TaskError as error:
        raise NotFoundError(str(error)) from error


def _task(entry: RegisteredTask) -> TaskInfo:
    return TaskInfo(
        id=entry.id,
        digest=entry.digest,
        status=entry.status,
        reason=entry.reason,
        split=entry.split,
        language=entry.language,
        difficulty=entry.difficulty,
        source_kind=entry.source_kind,
        registered_at=entry.registered_at,
        manifest=json_safe(dict(entry.manifest)),
    )


@router.get("/trajectories")
def trajectories(store: AStore, where: Wanted) -> SummaryPage:
    """Matching trajectories, newest first."""
    page = list(store.query(where))
    return SummaryPage(
        total=store.count(where), trajectories=[summary_of(one) for one in page], next=next_cursor(page, where)
    )


@router.get("/trajectories/{trajectory_id}")
def trajectory(
    trajectory_id: str,
    store: AStore,
    tokens: Annotated[bool, Query(description="With every call's token ids and logprobs.")] = True,
) -> TrajectoryInfo:
    """One trajectory by id or unique prefix."""
    summary = store.summary(trajectory_id)
    return trajectory_of(summary, store.get(summary.id), tokens=tokens)
