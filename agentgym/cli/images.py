"""`agentgym images`: build what sandboxes start from."""

from __future__ import annotations

import asyncio

import typer

from agentgym.cli.options import JSON
from agentgym.cli.output import emit, progress
from agentgym.cli.shared import BACKEND, DEFAULT_STORE, NAMES, STORE, backend_for, open_registry, resolve_tasks
from agentgym.errors import AgentGymError
from agentgym.sandbox import BackendName
from agentgym.sandbox.protocol import Image, ImageError, SandboxBackend
from agentgym.tasks import Task


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="What sandboxes start from.", no_args_is_help=True)
    group.command("build")(build)
    app.add_typer(group, name="images")


def build(
    names: NAMES,
    backend: BACKEND = "auto",
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Build the images of tasks; one that exists already is left as it is.

    A task whose image does not build stops no other; exit code 1 where there is one.
    """
    tasks = resolve_tasks(names, open_registry(store))
    images, failed = asyncio.run(_build(tasks, backend))
    built = {task_id: {"ref": image.ref, "digest": image.digest} for task_id, image in images.items()}
    lines = [f"{task_id}: {image['ref']}" for task_id, image in built.items()]
    reasons = {task_id: str(error) for task_id, error in failed.items()}
    emit({"images": built, "failed": reasons}, "\n".join(lines), as_json=as_json)
    _raise_failed(failed)


async def _build(tasks: list[Task], name: BackendName) -> tuple[dict[str, Image], dict[str, ImageError]]:
    async with backend_for(name, owner="images build") as backend:
        return await _build_each(tasks, backend)


async def build_images(tasks: list[Task], backend: SandboxBackend) -> list[Image]:
    """The image of each task, built where it is missing, with a progress bar. Raises AgentGymError where any does not
    build, after all others."""
    images, failed = await _build_each(tasks, backend)
    _raise_failed(failed)
    return [images[task.id] for task in tasks]


async def _build_each(tasks: list[Task], backend: SandboxBackend) -> tuple[dict[str, Image], dict[str, ImageError]]:
    """Images and failures by task id."""
    images: dict[str, Image] = {}
    failed: dict[str, ImageError] = {}
    with progress() as bars:
        bar = bars.add_task("images", total=len(tasks))
        for task in tasks:
            bars.update(bar, description=f"image of {task.id}")
            try:
                images[task.id] = await backend.ensure_image(task.image)
            except ImageError as error:
                failed[task.id] = error
            bars.advance(bar)
        bars.update(bar, description="images")
    return images, failed


def _raise_failed(failed: dict[str, ImageError]) -> None:
    if failed:
        reasons = "\n".join(f"{task_id}: {error}" for task_id, error in failed.items())
        raise AgentGymError(f"{len(failed)} images do not build\n{reasons}")
