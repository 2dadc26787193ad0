"""Where actions happen: one async protocol, its backends, images, and the reaper.

backend = await open_backend("auto")
sandbox = await backend.start(await backend.ensure_image(spec))
result = await sandbox.exec("pytest -q", timeout=120)
await backend.close()
"""

from __future__ import annotations

from typing import Literal, get_args

from agentgym.errors import InputError
from agentgym.sandbox.protocol import BackendUnavailable, SandboxBackend

BackendName = Literal["auto", "docker", "kubernetes", "local"]

__all__ = ["BackendName", "open_backend"]


async def open_backend(name: BackendName | str, *, owner: str | None = None) -> SandboxBackend:
    """The backend of that name; "auto": docker if an engine answers, else local. A cluster must be asked for by name.

    owner: a name for people, kept in the labels of all that is made (the owning process is recorded anyway).
    Raises InputError for any other name and BackendUnavailable, with what to do, where this machine has no such engine.
    """
    if name not in get_args(BackendName):
        raise InputError(f"there is no sandbox backend {name!r}: {', '.join(get_args(BackendName))}")
    # Imported late: each backend brings libraries that a machine without its engine need not have.
    if name == "kubernetes":
        return await _open_kubernetes(owner)
    if name in ("auto", "docker"):
        from agentgym.sandbox.docker import DockerBackend

        try:
            return await DockerBackend.open(owner)
        except BackendUnavailable:
            if name == "docker":
                raise
    from agentgym.sandbox.local import LocalBackend

    return await LocalBackend.open(owner)


async def _open_kubernetes(owner: str | None) -> SandboxBackend:
    try:
        from agentgym.sandbox.kubernetes.backend import KubernetesBackend
    except ModuleNotFoundError as error:
        raise BackendUnavailable(
            f"the kubernetes backend needs the package {error.name!r}", hint="pip install 'agentgym[kubernetes]'"
        ) from error
    return await KubernetesBackend.open(owner)
