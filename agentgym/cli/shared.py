"""What several commands do the same way: name tasks, open a backend, pick the store."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from agentgym.cli.output import stderr
from agentgym.config import STORE_VARIABLE, nearest
from agentgym.sandbox import BackendName, open_backend
from agentgym.sandbox.protocol import SandboxBackend
from agentgym.store.errors import StoreMissingError
from agentgym.tasks import Task, TaskError, load_task, shipped_tasks
from agentgym.tasks.loader import task_directories
from agentgym.tasks.measured import with_measured_limits
from agentgym.tasks.registry import RegisteredTask, Registry, unregistered

DEFAULT_STORE = "runs/agentgym.db"
STORE = Annotated[
    str, typer.Option("--store", metavar="URL", envvar=STORE_VARIABLE, help="SQLite path or SQLAlchemy URL.")
]
NAMES = Annotated[list[str], typer.Argument(metavar="TASK", help="Ids, directories of tasks, or all.")]
BACKEND = Annotated[
    BackendName, typer.Option("--backend", help="Where commands run; auto: Docker if an engine answers, else local.")
]


def default_store() -> str:
    """The store of commands whose options are a config: a TOML file's `store` goes before the environment's."""
    return os.environ.get(STORE_VARIABLE) or DEFAULT_STORE


def open_registry(store: str) -> Registry:
    """The registry of `store`, with the shipped tasks in it."""
    registry = Registry(store)
    known = {(entry.id, entry.root) for entry in registry.list()}
    for root in shipped_tasks():
        if (root.name, root) not in known:
            registry.register(load_task(root))
    return registry


def known_tasks(store: str) -> dict[str, RegisteredTask]:
    """What `open_registry` would hold, by id, without writing: the store may be read-only, or not there yet."""
    try:
        registry = Registry(store, create=False)
    except StoreMissingError:
        entries: dict[str, RegisteredTask] = {}
    else:
        entries = {entry.id: entry for entry in registry.list()}
        registry.close()
    known = {(entry.id, entry.root) for entry in entries.values()}
    new = [unregistered(load_task(root)) for root in shipped_tasks() if (root.name, root) not in known]
    return dict(sorted((entries | {entry.id: entry for entry in new}).items()))


def known_task(name: str, store: str) -> RegisteredTask:
    """One of `known_tasks` by id or the start of its digest, or an older version by that; raises TaskError."""
    known = known_tasks(store)
    prefix = name if name.startswith("sha256:") else f"sha256:{name}"
    fitting = [entry for entry in known.values() if len(prefix) > 10 and entry.digest.startswith(prefix)]
    if name in known or len(fitting) == 1:
        return known.get(name) or fitting[0]
    try:
        registry = Registry(store, create=False)
    except StoreMissingError:
        raise TaskError(f"no task {name!r}{nearest(name, list(known))}", hint="agentgym tasks list") from None
    return registry.get(name)


def resolve_tasks(names: Sequence[str], registry: Registry) -> list[Task]:
    """Tasks by id, digest, directory, or folder of directories; "all" is every registered one.

    Raises TaskError naming the nearest id.
    """
    entries = {entry.id: entry for entry in registry.list()}
    found: dict[str, Task] = {}
    for name in names:
        if name == "all":
            tasks = [_current(entry, registry) for entry in entries.values()]
        elif name in entries:
            tasks = [_current(entries[name], registry)]
        elif Path(name).is_dir():
            tasks = [load_task(root) for root in task_directories(Path(name))]
            for task in tasks:
                registry.register(task)
        elif name.startswith("sha256:"):
            tasks = [registry.get(name).load()]
        else:
            raise TaskError(f"no task {name!r}{nearest(name, list(entries))}", hint="agentgym tasks list")
        found |= {task.id: task for task in tasks}
    if not found:
        raise TaskError("no task was named", hint='name tasks by id or directory, or "all"; agentgym tasks list')
    return list(found.values())


def usable(names: Sequence[str], registry: Registry, *, split: str, any_status: bool) -> list[Task]:
    """The tasks named, of this split, with the limits that validation measured; refuses those that it has not found valid unless
    told otherwise.
    """
    from agentgym.sandbox.images import unpinned  # brings the engine's client

    tasks = [task for task in resolve_tasks(names, registry) if split in ("all", task.split)]
    if not tasks:
        raise TaskError(f"none of these tasks is in the split {split!r}", hint="agentgym tasks list; --split all")
    entries = {task.id: registry.get(task.digest) for task in tasks}
    doubtful = [id_ for id_, entry in entries.items() if entry.status != "valid"]
    if doubtful and not any_status:
        shown = ", ".join(doubtful[:8]) + (f" and {len(doubtful) - 8} more" if len(doubtful) > 8 else "")
        raise TaskError(
            f"not validated, so their rewards mean nothing: {shown}",
            hint=f"agentgym tasks validate {'--all' if len(doubtful) > 8 else ' '.join(doubtful)}, or --any-status",
        )
    floating = {task.id: names for task in tasks if (names := unpinned(task.image))}
    if floating and not any_status:
        listed = ", ".join(f"{id_} (FROM {' '.join(names)})" for id_, names in floating.items())
        raise TaskError(
            f"their images are whatever `latest` is today, so nothing can be trained on them: {listed}",
            hint="name a tag or a digest in environment/Dockerfile, or --any-status",
        )
    return [with_measured_limits(task, entries[task.id].report) for task in tasks]


def _current(entry: RegisteredTask, registry: Registry) -> Task:
    """The task of this entry. A shipped one may have changed with an update of agentgym: then it is a new version."""
    if entry.root not in shipped_tasks():
        return entry.load()
    task = load_task(entry.root)
    if task.digest != entry.digest:
        registry.register(task)
    return task


@asynccontextmanager
async def backend_for(name: str, owner: str) -> AsyncIterator[SandboxBackend]:
    """An open backend; says so where it is not the default one, and clears up what dead owners left."""
    backend = await open_backend(name, owner=owner)
    try:
        if backend.name == "local" and name == "auto":
            stderr.print(
                "[yellow]note:[/] no Docker engine answers, so sandboxes are bubblewrap jails on this system (`local`)"
            )
        if removed := await backend.reap():
            stderr.print(f"[dim]removed what a killed run had left: {removed}[/]")
        yield backend
    finally:
        await backend.close()
