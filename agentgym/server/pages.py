"""The HTML pages: a list of trajectories, and one trajectory as it happened. No script, everything escaped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from agentgym.observe.text import visible
from agentgym.server.api import AStore, Wanted, next_cursor
from agentgym.store.records import ModelCall, Step, Termination, Trajectory

router = APIRouter(include_in_schema=False)


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return str(seconds)


def _pretty(value: Any) -> str:
    return visible(json.dumps(value, indent=2, ensure_ascii=False, default=str))


# Autoescape is unconditional and no template switches it off: most of what is shown was written by a policy or a sandbox.
_templates = Environment(
    loader=PackageLoader("agentgym.server"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(
    visible=visible,
    moment=_moment,
    pretty=_pretty,
    reward=lambda reward: "—" if reward is None else f"{reward:g}",
)


def _page(name: str, **content: Any) -> HTMLResponse:
    return HTMLResponse(_templates.get_template(name).render(**content))


@router.get("/style.css")
def style() -> Response:
    return Response(_templates.get_template("style.css").render(), media_type="text/css")


@router.get("/")
def index(request: Request, store: AStore, where: Wanted) -> HTMLResponse:
    """The list, filtered by the same parameters as `/trajectories`."""
    page = list(store.query(where))
    cursor = next_cursor(page, where)
    kept = [(name, value) for name, value in request.query_params.multi_items() if name != "after"]
    return _page(
        "index.html",
        page=page,
        total=store.count(where),
        asked=request.query_params,
        terminations=[termination.value for termination in Termination],
        next_link=f"?{urlencode([*kept, ('after', cursor)])}" if cursor else None,
        first_link=f"?{urlencode(kept)}" if where.after else None,
    )


@dataclass(frozen=True, slots=True)
class Turn:
    """One call with the steps it caused, as the page shows them."""

    index: int
    call: ModelCall
    steps: Sequence[tuple[int, Step]]
    tokens: Sequence[dict[str, Any]] | None


@router.get("/trajectories/{trajectory_id}/view")
def view(
    trajectory_id: str,
    store: AStore,
    call: Annotated[int | None, Query(description="Show the sampled tokens of this call.")] = None,
) -> HTMLResponse:
    """One trajectory for people."""
    summary = store.summary(trajectory_id)
    trajectory = store.get(summary.id)
    failed = {test: verdict for test, verdict in trajectory.verdicts.items() if verdict != "passed"}
    return _page(
        "trajectory.html",
        summary=summary,
        trajectory=trajectory,
        turns=_turns(trajectory, call),
        failed=failed,
        passed=[test for test in trajectory.verdicts if test not in failed],
    )


def _turns(trajectory: Trajectory, shown_call: int | None) -> list[Turn]:
    steps: dict[int, list[tuple[int, Step]]] = {}
    for number, step in enumerate(trajectory.steps):
        steps.setdefault(step.call_index, []).append((number, step))
    return [
        Turn(k, call, steps.get(k, []), _token_rows(call) if k == shown_call else None)
        for k, call in enumerate(trajectory.calls)
    ]


def _token_rows(call: ModelCall) -> list[dict[str, Any]]:
    versions = [span.version for span in call.policy_versions for _ in range(span.start, span.end)]
    ids, logprobs = call.generation_token_ids.tolist(), call.logprobs.tolist()
    return [
        {"position": i, "id": token, "logprob": logprob, "version": version}
        for i, (token, logprob, version) in enumerate(zip(ids, logprobs, versions, strict=True))
    ]
