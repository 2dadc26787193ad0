"""Runs: what they came to, and starting, watching, stopping and resuming them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import PlainTextResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from agentgym.observe.text import encodable, json_safe
from agentgym.server.access.scopes import Caller, needs_read, needs_run, require
from agentgym.server.access.tokens import TokenInfo
from agentgym.server.api.query import ALauncher, AStore
from agentgym.server.problem import described
from agentgym.server.repeat import IdempotentRoute
from agentgym.server.runs.commands import RunKind, needs_admin
from agentgym.server.runs.events import events
from agentgym.server.runs.launch import LaunchedRun, Launcher
from agentgym.server.runs.overview import RunInfo, overview, run_info
from agentgym.server.runs.series import curves
from agentgym.store import NotFoundError, Store

router = APIRouter(tags=["runs"], route_class=IdempotentRoute, responses=described(401, 403, 404, 409, 422, 429))
_EXAMPLE = {"kind": "rollout", "config": {"tasks": ["tutorial-duration"], "rollouts": 4, "policy": "model"}}


class Launch(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})
    kind: RunKind = Field(description="Which command: `agentgym KIND`.")
    config: dict[str, Any] = Field(
        default_factory=dict,
        description="The command's options, as in its TOML file; `replay` and `check` select trajectories as `agentgym store ls` "
        "does, or `replay` names its `trajectory`; `validate` and `build` name their `tasks`, `import` a `benchmark` and its "
        "`source` on the server's disk.",
    )
    id: str | None = Field(default=None, description="Name of the run; made from kind and time where none is given.")


class Process(BaseModel):
    kind: RunKind
    status: str = Field(description="running | done | failed | stopped | lost (its process is gone without a word)")
    config: dict[str, Any]
    attempt: int = Field(description="How often it was started.")
    exit_code: int | None
    created_at: float
    started_at: float | None
    ended_at: float | None


class Run(BaseModel):
    id: str
    episodes: int
    solved: int
    graded: int = Field(description="Episodes with a verdict.")
    success: float | None
    success_low: float | None = Field(description="Wilson's 95 % interval.")
    success_high: float | None
    reward_mean: float | None
    terminations: dict[str, int]
    policies: list[str]
    tasks: int
    tokens: int = Field(description="Sampled tokens.")
    version_min: int | None
    version_max: int | None
    first_at: float | None
    last_at: float | None
    process: Process | None = Field(description="Where this server launched it.")


class CurveData(BaseModel):
    name: str
    x_label: str
    x: list[float]
    y: list[float | None] = Field(description="null where there is nothing.")


class Series(BaseModel):
    curves: list[CurveData]


class RunList(BaseModel):
    items: list[Run]


@router.get("/runs", dependencies=[Depends(needs_read)])
def list_runs(
    store: AStore,
    launcher: ALauncher,
    kind: Annotated[RunKind | None, Query(description="Only those launched here as this kind.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> RunList:
    """Runs with trajectories in the store, and those launched here, newest first."""
    found = overview(store, launcher, limit=limit)
    return RunList(items=[run_of(one) for one in found if kind is None or (one.launched and one.launched.kind == kind)])


@router.post("/runs", status_code=201, dependencies=[Depends(needs_run)])
def launch_run(body: Launch, store: AStore, launcher: ALauncher, who: Caller) -> Run:
    """Start a rollout, an evaluation, a training run, a replay, a check, a validation or an import in a process of its own."""
    _admit(body.kind, who)
    return launched(store, launcher, body.kind, body.config, body.id)


@router.get("/runs/{run_id}", dependencies=[Depends(needs_read)])
def get_run(run_id: str, store: AStore, launcher: ALauncher) -> Run:
    """One run."""
    return run_of(run_info(store, launcher, run_id))


@router.get("/runs/{run_id}/events", dependencies=[Depends(needs_read)], response_class=StreamingResponse)
def watch_run(run_id: str, store: AStore, launcher: ALauncher, request: Request) -> StreamingResponse:
    """Server-sent events: `progress` with the run whenever it changes, `end` when it is over."""

    def look() -> dict[str, Any]:
        run = run_of(run_info(store, launcher, run_id)).model_dump(mode="json")
        return run | {"status": run["process"]["status"] if run["process"] else None}

    look()  # an unknown run is a 404, not an empty stream
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    told = events(look, request.app.state.ending)
    return StreamingResponse(told, media_type="text/event-stream", headers=headers)


@router.get("/runs/{run_id}/series", dependencies=[Depends(needs_read)])
def get_series(run_id: str, store: AStore, launcher: ALauncher) -> Series:
    """Curves: reward, length and tokens over episodes; a launched training run's metrics over its updates."""
    info = run_info(store, launcher, run_id)
    return Series(curves=[CurveData(**asdict(one)) for one in curves(store, run_id, info.launched)])


@router.get("/runs/{run_id}/log", dependencies=[Depends(needs_read)], response_class=PlainTextResponse)
def get_log(run_id: str, launcher: ALauncher, tail: Annotated[int, Query(ge=1, le=1 << 20)] = 65_536) -> str:
    """The last `tail` bytes of what a launched run said."""
    path = launcher.get(run_id).directory / "log"
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - tail))
        return encodable(file.read().decode("utf-8", "replace"))


@router.get("/runs/{run_id}/result", dependencies=[Depends(needs_read)])
def get_result(run_id: str, launcher: ALauncher) -> dict[str, Any]:
    """The document that the command of a launched run printed at its end: `agentgym KIND --json`."""
    found = launcher.get(run_id).result()
    if found is None:
        raise NotFoundError(f"run {run_id!r} has no result yet", hint="its log says how far it is")
    return json_safe(found)


@router.post("/runs/{run_id}/stop", dependencies=[Depends(needs_run)])
def stop_run(run_id: str, store: AStore, launcher: ALauncher) -> Run:
    """End a launched run as Ctrl-C does: finished trajectories stay, sandboxes are removed."""
    launcher.stop(run_id)
    return run_of(run_info(store, launcher, run_id))


@router.post("/runs/{run_id}/resume", dependencies=[Depends(needs_run)])
def resume_run(run_id: str, store: AStore, launcher: ALauncher, who: Caller) -> Run:
    """Go on with a launched run that is not running: what is missing is done, nothing twice."""
    _admit(launcher.get(run_id).kind, who)
    launcher.resume(run_id)
    return run_of(run_info(store, launcher, run_id))


def launched(
    store: Store, launcher: Launcher, kind: RunKind, config: Mapping[str, Any], run_id: str | None = None
) -> Run:
    """Start a run, and say what is known of it."""
    return run_of(run_info(store, launcher, launcher.launch(kind, config, run_id).id))


def _admit(kind: RunKind, who: TokenInfo) -> None:
    """Some runs read the server's disk or remove what others made: they need more than `run`."""
    if needs_admin(kind):
        require(who, "admin")


def run_of(info: RunInfo) -> Run:
    copied = ("id", "episodes", "reward_mean", "tasks", "tokens", "version_min", "version_max", "first_at", "last_at")
    content = {name: getattr(info, name) for name in copied} | {
        "solved": info.success.successes,
        "graded": info.success.trials,
        "success": info.success.share,
        "success_low": info.success.low,
        "success_high": info.success.high,
        "terminations": dict(info.terminations),
        "policies": list(info.policies),
        "process": None if info.launched is None else _process(info.launched),
    }
    return Run(**json_safe(content))


def _process(launched: LaunchedRun) -> dict[str, Any]:
    return {name: value for name, value in asdict(launched).items() if name in Process.model_fields}
