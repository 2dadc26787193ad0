"""What the server's machine holds: images, sandboxes, and the checkpoints of the training runs it launched."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from agentgym.observe.text import json_safe
from agentgym.sandbox.protocol import BackendUnavailable
from agentgym.server.access.scopes import needs_admin, needs_read, needs_run
from agentgym.server.api.query import ALauncher, AStore
from agentgym.server.api.runs import Run, launched
from agentgym.server.problem import described
from agentgym.server.repeat import IdempotentRoute
from agentgym.server.runs.launch import LaunchedRun

T = TypeVar("T")
ENGINE_SECONDS = 10.0
_log = logging.getLogger(__name__)
router = APIRouter(tags=["machine"], route_class=IdempotentRoute, responses=described(401, 403, 422, 429))


class ImageInfo(BaseModel):
    backend: str = Field(description="docker | local")
    kind: str = Field(description="base | task")
    ref: str
    name: str
    digest: str
    size: int | None = Field(description="Bytes, those shared with other images included; null where nobody measured.")
    created: str = Field(description="ISO 8601.")


class ImageList(BaseModel):
    items: list[ImageInfo]
    silent: list[str] = Field(description="Backends that do not answer now: what they hold is not listed.")


class Build(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"tasks": ["tutorial-duration"]}]})
    tasks: list[str] = Field(description='Ids of registered tasks, or "all".', min_length=1, max_length=10_000)


class SandboxInfo(BaseModel):
    backend: str = Field(description="docker | local; pods are the cluster's to list.")
    id: str
    kind: str = Field(description="sandbox | build | snapshot")
    owner: str = Field(description="What the process that made it calls itself.")
    host: str
    pid: int | None
    created_at: float | None
    expires_at: float | None
    abandoned: str | None = Field(description="Why a reaper would remove it; null where its owner may still need it.")


class SandboxList(BaseModel):
    items: list[SandboxInfo]
    silent: list[str] = Field(description="Backends that do not answer now: what they hold is not listed.")


class Checkpoint(BaseModel):
    run_id: str
    step: int = Field(description="Policy updates taken.")
    version: int = Field(description="Of the policy in it.")
    policy: str = Field(description="Model directory on the server: what `--model` takes.")
    bytes: int
    created_at: float


class CheckpointList(BaseModel):
    items: list[Checkpoint]


@router.get("/images", dependencies=[Depends(needs_read)])
def list_images() -> ImageList:
    """Images that sandboxes start from, of every backend that answers, newest first."""
    from agentgym.sandbox import inventory

    docker = _of_docker(inventory.docker_images)
    found = [*(docker or ()), *inventory.local_images(measure=False)]
    return ImageList(
        items=[ImageInfo(**json_safe(asdict(one) | {"created": one.created.isoformat()})) for one in found],
        silent=["docker"] if docker is None else [],
    )


@router.post("/images", status_code=201, dependencies=[Depends(needs_run)])
def build_images(body: Build, store: AStore, launcher: ALauncher) -> Run:
    """Build the images of tasks, as a run; those that exist are left as they are."""
    return launched(store, launcher, "build", {"tasks": body.tasks})


@router.get("/sandboxes", dependencies=[Depends(needs_read)])
def list_sandboxes() -> SandboxList:
    """Sandboxes on this machine, with their owners and when they expire."""
    from agentgym.sandbox import census

    docker = _of_docker(census.docker_sandboxes)
    found = [*(docker or ()), *census.local_sandboxes()]
    return SandboxList(
        items=[SandboxInfo(**json_safe(asdict(one))) for one in found], silent=["docker"] if docker is None else []
    )


@router.post("/sandboxes/reap", status_code=201, dependencies=[Depends(needs_admin)])
def reap_sandboxes(store: AStore, launcher: ALauncher) -> Run:
    """Remove sandboxes whose owner is dead or whose time is over, in every backend that answers, as a run."""
    return launched(store, launcher, "reap", {})


@router.get("/checkpoints", dependencies=[Depends(needs_read)])
def list_checkpoints(launcher: ALauncher) -> CheckpointList:
    """Whole checkpoints of training runs launched here, newest first."""
    found = [one for run in launcher.list() if run.kind == "train" for one in _checkpoints(run)]
    return CheckpointList(items=sorted(found, key=lambda one: one.created_at, reverse=True))


def _of_docker(ask: Callable[[Any], list[T]]) -> list[T] | None:
    """What the engine says; None where there is none, or it does not answer in time."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    from agentgym.sandbox.images import connect

    try:
        return ask(connect(timeout=ENGINE_SECONDS))
    except (BackendUnavailable, DockerException, RequestException) as error:
        _log.info("the Docker engine does not answer: %s", error)
        return None


def _checkpoints(run: LaunchedRun) -> Iterator[Checkpoint]:
    for directory in (run.directory / "checkpoints").glob("step-*"):
        with contextlib.suppress(OSError, ValueError, KeyError):  # an older one is being removed at this moment
            state = json.loads((directory / "state.json").read_text())
            files = json.loads((directory / "manifest.json").read_text())
            yield Checkpoint(
                run_id=run.id,
                step=state["step"],
                version=state["version"],
                policy=str(Path(directory) / "policy"),
                bytes=sum(size for size, _ in files.values()),
                created_at=(directory / "manifest.json").stat().st_mtime,
            )
