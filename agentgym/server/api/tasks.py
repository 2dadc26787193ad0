"""Tasks: what is registered, and registering what lies on the server's disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from agentgym.server.access.scopes import needs_admin, needs_read
from agentgym.server.api.models import TaskInfo, TaskPage, task_of
from agentgym.server.api.query import ARegistry, Text
from agentgym.server.problem import described
from agentgym.server.repeat import IdempotentRoute
from agentgym.store import NotFoundError
from agentgym.tasks import TaskError, load_task

router = APIRouter(tags=["tasks"], route_class=IdempotentRoute, responses=described(401, 403, 404, 422, 429))


class TaskDirectory(BaseModel):
    directory: str = Field(
        description="A task directory on the server's disk.", min_length=1, max_length=4096, examples=["/srv/tasks/one"]
    )


@router.get("/tasks", dependencies=[Depends(needs_read)])
def list_tasks(
    registry: ARegistry,
    split: Text = None,
    source: Text = None,
    status: Literal["registered", "valid", "rejected", "error"] | None = None,
    search: Annotated[Text, Query(description="Part of the id or the instruction.")] = None,
    cursor: Annotated[Text, Query(description="`next` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> TaskPage:
    """The newest version of every registered task, by id."""
    entries = registry.list(status=status, split=split, source=source)
    if search:
        sought = search.lower()
        entries = [one for one in entries if sought in f"{one.id}\n{one.manifest.get('instruction', '')}".lower()]
    rest = [one for one in entries if cursor is None or one.id > cursor]
    return TaskPage(
        total=len(entries),
        items=[task_of(one) for one in rest[:limit]],
        next=rest[limit - 1].id if len(rest) > limit else None,
    )


@router.post("/tasks", status_code=201, dependencies=[Depends(needs_admin)])
def register_task(body: TaskDirectory, registry: ARegistry) -> TaskInfo:
    """Register a directory as a task, or as a new version of one. Validate it with a run of kind `validate`."""
    if "\0" in body.directory:
        raise TaskError("directory: holds NUL")
    directory = Path(body.directory.encode("utf-8", "replace").decode())
    if not directory.is_dir():
        raise TaskError(f"{directory} is no directory on the server")
    return task_of(registry.register(load_task(directory)))


@router.get("/tasks/{task_id:path}", dependencies=[Depends(needs_read)])
def get_task(task_id: str, registry: ARegistry) -> TaskInfo:
    """One task by id or digest."""
    if "\0" in task_id or not task_id.isprintable():
        raise NotFoundError(f"no task {task_id!r}")
    try:
        return task_of(registry.get(task_id))
    except TaskError as error:
        raise NotFoundError(str(error.args[0]), hint=error.hint) from error
