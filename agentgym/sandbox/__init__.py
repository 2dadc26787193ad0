"""Where actions happen: one async protocol, its backends, images, and the reaper.

backend = await open_backend("auto")
sandbox = await backend.start(await backend.ensure_image(spec))
result = await sandbox.exec("pytest -q", timeout=120)
await backend.close()

What `open_backend` gives is an engine behind admission and warm pool (`managed.py`); nobody talks to an engine directly.
"""

from __future__ import annotations

from typing import Literal, get_args

from agentgym.errors import InputError
from agentgym.sandbox.capacity import Capacity
from agentgym.sandbox.managed import ManagedBackend
from agentgym.sandbox.protocol import BackendUnavailable, SandboxBackend

BackendName = Literal["auto", "docker", "kubernetes", "local"]

__all__ = ["BackendName", "Capacity", "ManagedBackend", "open_backend"]


async def open_backend(
    name: BackendName | str, *, owner: str | None = None, capacity: Capacity | None = None
) -> ManagedBackend:
    """The backend of that name; "auto": docker if an engine answers, else local. A cluster must be asked for by name.

    owner: a name for people, kept in the labels of all that is made (the owning process is recorded anyway). capacity: how much
    it may hold at once, by default what suits the engine's machine.
    Raises InputError for any other name and BackendUnavailable, with what to do, where this machine has no such engine.
    """
    if name not in get_args(BackendName):
        raise InputError(f"there is no sandbox backend {name!r}: {', '.join(get_args(BackendName))}")
    # Imported late: each backend brings libraries that a machine without its engine need not have.
    if name == "kubernetes":
        return ManagedBackend(await _open_kubernetes(owner), capacity or Capacity.of_a_cluster())
    if name in ("auto", "docker"):
        from agentgym.sandbox.docker import DockerBackend

        try:
            docker = await DockerBackend.open(owner)
            return ManagedBackend(docker, capacity or docker.capacity)
        except BackendUnavailable:
            if name == "docker":
                raise
    from agentgym.sandbox.local import LocalBackend

    return ManagedBackend(await LocalBackend.open(owner), capacity or Capacity.of_this_machine())


async def _open_kubernetes(owner: str | None) -> SandboxBackend:
    try:
        from agentgym.sandbox.kubernetes.backend import KubernetesBackend
    except ModuleNotFoundError as error:
        raise BackendUnavailable(
            f"the kubernetes backend needs the package {error.name!r}", hint="pip install 'agentgym[kubernetes]'"
        ) from error
    return await KubernetesBackend.open(owner)
