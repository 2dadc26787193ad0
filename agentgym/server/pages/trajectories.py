"""Trajectories: the list, one as it happened, and its tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from agentgym.observe import Flag, behaviour_of
from agentgym.observe.suspicion import REASONS
from agentgym.observe.text import visible
from agentgym.server import listing
from agentgym.server.access.scopes import needs_read
from agentgym.server.api.query import APlace, AStore, Wanted
from agentgym.server.pages.render import page
from agentgym.server.tokens_view import Tokenizer, tokenizer_of
from agentgym.store.records import ModelCall, Step, Termination, Trajectory
from agentgym.store.sequences import sequences
from agentgym.store.states import WorkspaceState, WorkspaceStates

router = APIRouter(dependencies=[Depends(needs_read)])
FIRST_TURNS = 30
"""Turns whose text is on the page from the start: more than a screen holds."""
MOST_TURNS = 1000
_HEADINGS = (
    ("reward", "reward"),
    ("steps", "steps"),
    ("tokens", "tokens"),
    ("action_tokens", "sampled"),
    ("created_at", "recorded (UTC)"),
)


@router.get("/trajectories")
def index(request: Request, store: AStore, where: Wanted, place: APlace) -> HTMLResponse:
    """The list, by the same parameters as `/v1/trajectories`."""
    found = listing.page(
        store, where, sort=place.sort, descending=place.descending, cursor=place.cursor, limit=place.limit
    )
    asked = [(name, value) for name, value in request.query_params.multi_items() if value]
    filters = [(name, value) for name, value in asked if name not in ("cursor", "sort", "order")]
    kept = [(name, value) for name, value in asked if name != "cursor"]
    sorts = []
    for name, label in _HEADINGS:
        mine = place.sort == name
        order = "asc" if mine and place.descending else "desc"
        direction = ("descending" if place.descending else "ascending") if mine else "none"
        sorts.append((label, f"?{urlencode([*filters, ('sort', name), ('order', order)])}", direction))
    return page(
        "trajectories.html",
        page=found,
        asked=request.query_params,
        filtered=any(name not in ("sort", "order", "limit") for name, _ in kept),
        terminations=[termination.value for termination in Termination],
        sorts=sorts,
        next_link=f"?{urlencode([*kept, ('cursor', found.next)])}" if found.next else None,
        first_link=f"?{urlencode(kept)}" if place.cursor else None,
    )


@dataclass(frozen=True, slots=True)
class Turn:
    """One call with the steps it caused. whole: whether its text is on the page, or fetched when a reader comes near. said:
    what the policy wrote, None where its tokenizer is not here. changed: whether the workspace's tree differs after each
    step, None where no tree was recorded. states: by step, where a replay has graded them."""

    index: int
    call: ModelCall
    whole: bool
    said: str | None
    steps: Sequence[tuple[int, Step, bool | None, Sequence[Flag]]]
    states: Mapping[int, WorkspaceState]


@router.get("/trajectories/{trajectory_id}")
def one(trajectory_id: str, store: AStore) -> HTMLResponse:
    """One trajectory, turn by turn."""
    summary = store.summary(trajectory_id)
    if summary.id != trajectory_id:
        return RedirectResponse(f"/trajectories/{summary.id}", status_code=307)  # type: ignore[return-value]
    trajectory = store.get(summary.id)
    failed = {test: verdict for test, verdict in trajectory.verdicts.items() if verdict != "passed"}
    notes = trajectory.metadata.get("grade_notes", ())
    states = store.states(summary.id)
    behaviour = behaviour_of(summary, trajectory.steps, patch=trajectory.patch, timings=trajectory.timings, notes=notes)
    return page(
        "trajectory.html",
        summary=summary,
        trajectory=trajectory,
        behaviour=behaviour,
        reasons=REASONS,
        states=states,
        turns=_turns(trajectory, behaviour.flags, range(FIRST_TURNS), states),
        failed=failed,
        passed=[test for test in trajectory.verdicts if test not in failed],
    )


@router.get("/trajectories/{trajectory_id}/turns")
def turns(
    trajectory_id: str,
    store: AStore,
    first: Annotated[int, Query(ge=0, le=1_000_000)],
    count: Annotated[int, Query(ge=1, le=MOST_TURNS)] = 20,
) -> HTMLResponse:
    """Some turns of a trajectory in full, as the page puts them in place of what it left out."""
    trajectory = store.get(trajectory_id)
    flags = behaviour_of(store.summary(trajectory.id), trajectory.steps, patch=trajectory.patch).flags
    states = store.states(trajectory.id)
    found = _turns(trajectory, flags, range(first, first + count), states)[first : first + count]
    return page("turns.html", trajectory=trajectory, turns=found, reasons=REASONS)


@router.get("/trajectories/{trajectory_id}/tokens")
def tokens(trajectory_id: str, store: AStore, sequence: Annotated[int, Query(ge=0, le=1_000_000)] = 0) -> HTMLResponse:
    """The heat map; its data is `/v1/trajectories/ID/tokens`."""
    summary = store.summary(trajectory_id)
    count = len(sequences(store.get(summary.id)))
    return page("tokens.html", summary=summary, sequence=sequence, count=count)


def _turns(trajectory: Trajectory, flags: Sequence[Flag], whole: range, states: WorkspaceStates | None) -> list[Turn]:
    raised: dict[int | None, list[Flag]] = {}
    for flag in flags:
        raised.setdefault(flag.step, []).append(flag)
    tokenizer = tokenizer_of(trajectory.model)
    graded = {one.step: one for one in states.states} if states else {}
    steps: dict[int, list[tuple[int, Step, bool | None, Sequence[Flag]]]] = {}
    before: str | None = None
    for number, step in enumerate(trajectory.steps):
        changed = None if step.tree_hash is None or before is None else step.tree_hash != before
        before = step.tree_hash or before
        steps.setdefault(step.call_index, []).append((number, step, changed, raised.get(number, ())))
    return [
        Turn(
            index,
            call,
            index in whole,
            _said(tokenizer, call) if index in whole else None,
            steps.get(index, []),
            graded,
        )
        for index, call in enumerate(trajectory.calls)
    ]


def _said(tokenizer: Tokenizer | None, call: ModelCall) -> str | None:
    if tokenizer is None:
        return None
    return visible(tokenizer.decode(call.generation_token_ids.tolist(), skip_special_tokens=False))
