"""`agentgym images`: build what sandboxes start from."""

from __future__ import annotations

import asyncio

import typer

from agentgym.cli.options import JSON
from agentgym.cli.output import emit, progress
from agentgym.cli.shared import BACKEND, DEFAULT_STORE, NAMES, STORE, backend_for, open_registry, resolve_tasks
from agentgym.sandbox import BackendName
from agentgym.sandbox.protocol import Image, SandboxBackend
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
    """Build the images of tasks; one that exists already is left as it is."""
    tasks = resolve_tasks(names, open_registry(store))
    images = asyncio.run(_build(tasks, backend))
    document = {task.id: {"ref": image.ref, "digest": image.digest} for task, image in zip(tasks, images, strict=True)}
    lines = [f"{task_id}: {image['ref']}" for task_id, image in document.items()]
    emit({"images": document}, "\n".join(lines), as_json=as_json)


async def _build(tasks: list[Task], name: BackendName) -> list[Image]:
    async with backend_for(name, owner="images build") as backend:
        return await build_images(tasks, backend)


async def build_images(tasks: list[Task], backend: SandboxBackend) -> list[Image]:
    """The image of each task, built where it is missing, with a progress bar."""
    images: list[Image] = []
    with progress() as bars:
        bar = bars.add_task("images", total=len(tasks))
        for task in tasks:
            bars.update(bar, description=f"image of {task.id}")
            images.append(await backend.ensure_image(task.image))
            bars.advance(bar)
        bars.update(bar, description="images")
    return images
