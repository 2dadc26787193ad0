"""`agentgym images`: build what sandboxes start from, look at it, get its disk space back, and take it elsewhere.

What knows the engine is imported inside the commands: its client is slow to load, and every command of ours loads this file.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from agentgym.cli.options import JSON
from agentgym.cli.output import emit, progress
from agentgym.cli.shared import BACKEND, DEFAULT_STORE, NAMES, STORE, backend_for, open_registry, resolve_tasks
from agentgym.errors import AgentGymError
from agentgym.sandbox import BackendName
from agentgym.sandbox.protocol import BackendUnavailable, Image, ImageError, SandboxBackend
from agentgym.tasks import Task


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="What sandboxes start from.", no_args_is_help=True)
    group.command("ls")(list_images)
    group.command("build")(build)
    group.command("prune")(prune)
    group.command("export")(export)
    group.command("import")(import_)
    group.command("push")(push)
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


def list_images(as_json: JSON = False) -> None:
    """List the images this machine holds, for every backend that answers; sizes include what images share."""
    from agentgym.sandbox import inventory
    from agentgym.sandbox.images import connect

    found = inventory.local_images()
    with contextlib.suppress(BackendUnavailable):
        found = inventory.docker_images(connect()) + found
    table = Table(title="images", title_justify="left", box=None, pad_edge=False)
    for heading in ("backend", "kind", "name", "size", "made", "reference"):
        table.add_column(heading)
    for info in found:
        made = info.created.strftime("%Y-%m-%d %H:%M")
        table.add_row(
            info.backend, info.kind, escape(info.name), f"{(info.size or 0) / 2**20:.0f} MB", made, escape(info.ref)
        )
    emit({"images": [asdict(info) | {"created": info.created.isoformat()} for info in found]}, table, as_json=as_json)


def prune(
    everything: Annotated[bool, typer.Option("--all", help="Also base systems, and all images of `local`.")] = False,
    as_json: JSON = False,
) -> None:
    """Remove task images that no sandbox uses; they are built again when needed. Not while images are being built."""
    from agentgym.sandbox import inventory
    from agentgym.sandbox.images import connect

    freed = {"local": inventory.prune_local(everything=everything)}
    removed: list[str] = []
    with contextlib.suppress(BackendUnavailable):
        removed = [info.ref for info in inventory.prune_docker(connect(), bases=everything)]
    lines = [*(f"docker: {ref} removed" for ref in removed), f"local: {freed['local'] / 2**20:.0f} MB freed"]
    emit({"removed": removed, "local_bytes_freed": freed["local"]}, "\n".join(lines), as_json=as_json)


def export(
    names: NAMES,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, e.g. images.tar.zst.")],
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Write the Docker images of tasks into one file, built where they are missing; shared layers are written once."""
    from agentgym.sandbox import bundle
    from agentgym.sandbox.images import connect

    built = asyncio.run(_images(resolve_tasks(names, open_registry(store)), "images export"))
    entries = bundle.export(connect(), built, output)
    text = f"{output}: {len(entries)} images, {output.stat().st_size / 2**20:.0f} MB"
    emit({"file": str(output), "images": [asdict(entry) for entry in entries]}, text, as_json=as_json)


def import_(
    file: Annotated[Path, typer.Argument(help="What `agentgym images export` wrote.")], as_json: JSON = False
) -> None:
    """Give this machine's engine the images of a file; each is checked against the content address in its list."""
    from agentgym.sandbox import bundle
    from agentgym.sandbox.images import connect

    entries = bundle.load(connect(), file)
    lines = [f"{entry.name}: {entry.ref}" for entry in entries]
    emit({"images": [asdict(entry) for entry in entries]}, "\n".join(lines), as_json=as_json)


def push(
    names: NAMES,
    to: Annotated[
        str, typer.Option("--to", metavar="REGISTRY", help="e.g. registry.example.org or registry.example.org/team")
    ],
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Push the Docker images of tasks to a registry, each under the name that pods on Kubernetes start it by."""
    from agentgym.sandbox import bundle
    from agentgym.sandbox.images import connect

    built = asyncio.run(_images(resolve_tasks(names, open_registry(store)), "images push"))
    client = connect()
    pushed = {image.spec.name: bundle.push(client, image, to) for image in built}
    lines = [f"{name}: {reference} ({digest})" for name, (reference, digest) in pushed.items()]
    document = {name: {"ref": reference, "digest": digest} for name, (reference, digest) in pushed.items()}
    emit({"images": document}, "\n".join(lines), as_json=as_json)


async def _images(tasks: list[Task], purpose: str) -> list[Image]:
    """The Docker images of these tasks."""
    async with backend_for("docker", owner=purpose) as backend:
        return await build_images(tasks, backend)


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
