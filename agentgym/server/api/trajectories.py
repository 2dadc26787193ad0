"""Trajectories: a page of them, and the parts of one, each as cheap as what it says (columns, steps, tokens)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from agentgym.observe.text import json_safe
from agentgym.server import listing, tokens_view
from agentgym.server.access.scopes import needs_read
from agentgym.server.api.models import (
    CallList,
    Detail,
    StepInfo,
    Summary,
    SummaryPage,
    call_of,
    summary_document,
    summary_of,
)
from agentgym.server.api.query import APlace, AStore, Text, Wanted, Whole, near
from agentgym.server.problem import described
from agentgym.store import NotFoundError
from agentgym.store.detail import step_document

router = APIRouter(
    tags=["trajectories"], dependencies=[Depends(needs_read)], responses=described(401, 403, 404, 422, 429)
)
Id = Annotated[str, Path(description="Id or unique prefix.", examples=["3f9a41d2"])]


@router.get("/trajectories")
def list_trajectories(store: AStore, where: Wanted, place: APlace) -> SummaryPage:
    """Matching trajectories, newest first unless sorted otherwise."""
    page = listing.page(
        store, where, sort=place.sort, descending=place.descending, cursor=place.cursor, limit=place.limit
    )
    items = [summary_of(one) for one in page.items]
    return SummaryPage.model_construct(total=page.total, items=items, next=page.next, damaged=list(page.damaged))


@router.get("/trajectories/{trajectory_id}", response_model=Summary)
async def get_trajectory(trajectory_id: Id, store: AStore) -> Response:
    """The columns of one trajectory."""
    return JSONResponse(summary_document(await near(store, store.summary, trajectory_id)))


@router.get("/trajectories/{trajectory_id}/detail")
def get_detail(trajectory_id: Id, store: AStore) -> Detail:
    """What happened: steps with their observations, verdicts, patch, times."""
    trajectory = store.get(trajectory_id)
    content = {
        "error": trajectory.error,
        "reward_vector": dict(trajectory.reward_vector),
        "verdicts": dict(trajectory.verdicts),
        "patch": trajectory.patch,
        "timings": dict(trajectory.timings),
        "metadata": dict(trajectory.metadata),
        "steps": [step_document(step) for step in trajectory.steps],
    }
    return Detail(**json_safe(content))


@router.get("/trajectories/{trajectory_id}/steps/{number}")
def get_step(trajectory_id: Id, number: Annotated[int, Path(ge=0, le=1_000_000)], store: AStore) -> StepInfo:
    """One step."""
    steps = store.get(trajectory_id).steps
    if number >= len(steps):
        raise NotFoundError(f"trajectory {trajectory_id} has {len(steps)} steps, and no number {number}")
    return StepInfo(**json_safe(step_document(steps[number])))


class StateInfo(BaseModel):
    step: int
    tree_hash: str | None
    diff: str = Field(description="Unified, since the state before.")
    reward: float | None = Field(
        description="What a submission of this state would have got; null where grading failed."
    )


class States(BaseModel):
    solved_at: int | None = Field(description="First step after which the hidden tests pass.")
    broken_at: int | None = Field(description="First step after that at which they fail, where they fail at the end.")
    last_failed: int | None
    states: list[StateInfo]


@router.get("/trajectories/{trajectory_id}/states")
def get_states(trajectory_id: Id, store: AStore) -> States:
    """The workspace after each step, and whether the hidden tests pass there; known once a replay with `progress` has run."""
    id_ = store.summary(trajectory_id).id
    found = store.states(id_)
    if found is None:
        raise NotFoundError(
            f"no replay has graded the states of trajectory {id_[:8]}", hint=f"agentgym replay {id_} --progress"
        )
    content = {name: getattr(found, name) for name in ("solved_at", "broken_at", "last_failed")}
    return States(**json_safe(content | {"states": [asdict(one) for one in found.states]}))


@router.get("/trajectories/{trajectory_id}/calls")
def get_calls(trajectory_id: Id, store: AStore) -> CallList:
    """Every request to the policy: token ids exactly as sent and sampled, logprobs, versions, sampling."""
    return CallList(calls=[call_of(call) for call in store.get(trajectory_id).calls])


@router.get("/trajectories/{trajectory_id}/tokens")
def get_tokens(
    trajectory_id: Id,
    store: AStore,
    sequence: Annotated[int, Query(ge=0, le=1_000_000, description="Which of its sequences.")] = 0,
) -> Response:
    """One sequence in columns of equal length: ids, sampled, logprobs, version, call; and `pieces`, the text by token id
    (null where the model's tokenizer is not here)."""
    columns = tokens_view.token_columns(store.get(trajectory_id), sequence)
    return Response(tokens_view.dumps(columns), media_type="application/json")


@router.get("/trajectories/{trajectory_id}/credit")
def get_credit(
    trajectory_id: Id,
    store: AStore,
    sequence: Annotated[int, Query(ge=0, le=1_000_000, description="Which of its sequences.")] = 0,
    run_id: Annotated[Text, Query(description="Training run; none: the newest update.")] = None,
    step: Annotated[Whole, Query(description="Update of that run.")] = None,
) -> Response:
    """What a learner thought of each token: advantage, importance ratio, value, and whether the objective's mask kept it,
    in columns like those of `/tokens`, null where a token was not sampled; and every update that had this trajectory."""
    columns = tokens_view.credit_columns(store, store.get(trajectory_id), sequence, run_id, step)
    return Response(tokens_view.dumps(columns), media_type="application/json")
