"""Sandboxes as Docker containers: what the engine is asked for, and nothing about how commands run (`channel.py`).

Isolation, for code nobody has read: no capability at all, no way to gain one (no-new-privileges), the engine's default
seccomp profile, no network but loopback, no host path, no engine socket, memory without swap, CPU, process and file
limits. Commands run as the image's user; images built here have an unprivileged one (`finish.py`) that owns the workdir. An
image of other origin that names no user runs as a root without capabilities, which can write what root owns and do nothing else.

PID 1 is a script of ours (`pid1.py`), not the engine's init; the engine removes the container when it ends. It runs as a root
without capabilities, so the user whom commands run as cannot trace it either.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import posixpath
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from docker import APIClient

from agentgym.sandbox import archive, files, images, outside, reaper, shell
from agentgym.sandbox.capacity import Capacity
from agentgym.sandbox.channel import Channel
from agentgym.sandbox.channel_sandbox import ChannelSandbox
from agentgym.sandbox.diskwatch import DiskWatch
from agentgym.sandbox.engine import Engine, EngineError, ExecStream
from agentgym.sandbox.labels import Owner, lease
from agentgym.sandbox.lane import Lane, LaneClosed
from agentgym.sandbox.memorywatch import MemoryWatch
from agentgym.sandbox.pid1 import pid1
from agentgym.sandbox.protocol import (
    FileError,
    Image,
    ImageSpec,
    Limits,
    SandboxError,
    SandboxGone,
    StartError,
    TransportError,
)

_SPARE_PIDS = 32
"""Process slots beyond the limit while a rescue needs to start a shell in a full sandbox."""
_QUICK_END_S = 2.0
"""How long a container may take to die before its CPU limit is lifted."""
_IN_FLIGHT_S = 30.0
"""How long an end waits for the engine to finish what is under way: a creation it was asked for, a removal of another's."""


class DockerSandbox(ChannelSandbox):
    """One container and the channel into it. Made by `DockerBackend.start`."""

    backend = "docker"

    def __init__(
        self,
        engine: Engine,
        container: str,
        image: Image,
        limits: Limits,
        owner: Owner,
        user: str,
        on_close: Callable[[str], object],
    ) -> None:
        self.id = container
        self.image = image
        self._engine = engine
        self._limits = limits
        self._owner = owner
        self._run_as = user
        self._on_close = on_close
        self._channel = Channel(self.open_stream, workdir=image.spec.workdir, rescue=self.rescue)

    async def open(self) -> None:
        await self._channel.open()

    async def upload(self, source: Path, target: str) -> None:
        target = files.checked(target)
        missing: list[str] = []
        place = target if await asyncio.to_thread(source.is_dir) else posixpath.dirname(target)
        while not await self._engine.has_path(self.id, place):
            missing.insert(0, place)
            place = posixpath.dirname(place)
        uid, gid = await self._user()
        with tempfile.TemporaryFile() as tar:
            await asyncio.to_thread(archive.pack, source, target, tar, uid=uid, gid=gid, new_parents=missing)
            tar.seek(0)
            await self._engine.put_archive(self.id, "/", tar)

    async def download(self, source: str, target: Path) -> None:
        with tempfile.TemporaryFile() as tar:
            await self._engine.get_archive(self.id, files.checked(source), tar)
            tar.seek(0)
            await asyncio.to_thread(archive.unpack, tar, target)

    async def snapshot(self) -> Image:
        labels = lease("snapshot", self._owner, self._limits.lifetime_s)
        try:
            committed = await self._engine.json(
                "POST",
                "/commit",
                {"Labels": labels, "User": self._run_as},
                {"container": self.id, "repo": "agentgym-snapshot", "tag": uuid4().hex[:12], "pause": "true"},
            )
        except EngineError as error:
            if error.status == 404:
                raise SandboxGone(f"sandbox {self.id[:12]} is gone") from error
            raise
        return replace(self.image, ref=committed["Id"], digest=committed["Id"])

    async def written(self) -> Path | None:
        """See `diskwatch.Watched`."""
        try:
            driver = (await self._engine.json("GET", f"/containers/{self.id}/json"))["GraphDriver"]
        except EngineError:
            return None
        upper = (driver.get("Data") or {}).get("UpperDir")
        return Path(upper) if upper else None

    async def stop_writing(self) -> None:
        self._channel.disk_full = True
        await self.rescue()

    async def memory_groups(self) -> list[Path]:
        """See `memorywatch.Watched`."""
        group = await outside.memory_group(self._engine, self.id)
        return [group] if group else []

    def _check(self) -> None:
        if self._closing is not None:
            raise SandboxGone(f"sandbox {self.id[:12]} is closed")

    async def _close(self) -> None:
        await self._channel.close()
        self._on_close(self.id)
        removal = asyncio.ensure_future(asyncio.to_thread(_remove_container, self._engine, self.id))
        done, _ = await asyncio.wait({removal}, timeout=_QUICK_END_S)
        if not done:
            async with outside.hurried(self._engine, self.id):
                await removal
        await removal

    async def _user(self) -> tuple[int, int]:
        result = await self._channel.exec("id -u; id -g", cwd="/")
        try:
            uid, gid = map(int, result.output.split())
        except ValueError as error:
            raise FileError(f"the sandbox does not say who its user is: {result.text!r}") from error
        return uid, gid

    async def open_stream(self) -> ExecStream:
        return await self._engine.attach_exec(self.id, ["/bin/sh"], user=self._run_as)

    async def _end_processes(self) -> None:
        """Kills everything the user runs: from outside, else from a shell for which room is made above the process limit."""
        path = f"/containers/{self.id}/update"
        try:
            if await outside.kill_all(self._engine, self.id):
                return
            await self._engine.json("POST", path, {"PidsLimit": self._limits.pids + _SPARE_PIDS})
            lane = Lane(await self.open_stream())
            try:
                async with asyncio.timeout(30):
                    await lane.hello()
                    with contextlib.suppress(LaneClosed):  # its own shell is among the killed
                        await lane.ask(shell.kill_all_request())
            finally:
                lane.close()
                await self._engine.json("POST", path, {"PidsLimit": self._limits.pids})
        except EngineError as error:
            raise SandboxGone(f"sandbox {self.id[:12]} cannot be rescued: {error}") from error
        except (LaneClosed, TimeoutError) as error:
            raise TransportError(f"sandbox {self.id[:12]} does not answer a rescue: {error!r}") from error


class DockerBackend:
    name = "docker"

    def __init__(self, engine: Engine, owner: Owner, info: Mapping[str, Any]) -> None:
        self.capacity = Capacity.of_machine(info["NCPU"], info["MemTotal"])
        self._disk = _disk_watch(engine, info)
        self._memory = MemoryWatch()
        self._engine = engine
        self._owner = owner
        self._live: dict[str, DockerSandbox] = {}
        self._images: APIClient | None = None
        self._users: dict[str, str] = {}

    @classmethod
    async def open(cls, owner: str | None = None) -> DockerBackend:
        """Raises BackendUnavailable, with what to do, where no engine answers."""
        engine = Engine()
        try:
            info = await engine.info()
        except BaseException:
            await engine.close()
            raise
        return cls(engine, Owner.current(owner or ""), info)

    async def ensure_image(self, spec: ImageSpec) -> Image:
        return await images.build(await self._image_client(), spec)

    async def start(self, image: Image, limits: Limits = Limits()) -> DockerSandbox:
        # Named by us: a container whose creation was cut off before its id came can still be removed.
        name = f"agentgym-{uuid4().hex}"
        config = container_config(image, limits, self._owner)
        sandbox: DockerSandbox | None = None
        creation: asyncio.Future[Any] | None = None
        try:
            user = await self._user_of(image)
            # Not cut off when we are: the engine would make the container all the same, and maybe after our removal of it.
            creation = asyncio.ensure_future(self._engine.json("POST", "/containers/create", config, {"name": name}))
            created = await asyncio.shield(creation)
            sandbox = DockerSandbox(self._engine, created["Id"], image, limits, self._owner, user, self._forget)
            self._live[sandbox.id] = sandbox
            await self._engine.json("POST", f"/containers/{sandbox.id}/start")
            await sandbox.open()
            if self._disk is not None:
                self._disk.add(sandbox, limits.disk_mb << 20)
            self._memory.add(sandbox)
        except BaseException as error:
            with contextlib.suppress(SandboxError):
                await self._undo(name, sandbox, creation)
            if isinstance(error, SandboxError):
                raise StartError(f"no sandbox from image {image.ref}: {error}", retry_safe=_passes(error)) from error
            raise
        return sandbox

    async def _user_of(self, image: Image) -> str:
        """Whom the image's commands run as; "" is root."""
        if image.digest not in self._users:
            described = await self._engine.json("GET", f"/images/{image.ref}/json")
            self._users[image.digest] = described["Config"].get("User") or ""
        return self._users[image.digest]

    async def _undo(self, name: str, sandbox: DockerSandbox | None, creation: asyncio.Future[Any] | None) -> None:
        if sandbox is not None:
            await sandbox.close()
        elif creation is not None:
            await asyncio.wait({creation}, timeout=_IN_FLIGHT_S)
            await asyncio.shield(asyncio.to_thread(_remove_container, self._engine, name))

    async def reap(self, *, everything: bool = False) -> int:
        builds = await asyncio.to_thread(images.reap_builds, await self._image_client())
        return builds + await reaper.reap(self._engine, everything=everything)

    def _forget(self, id_: str) -> None:
        self._live.pop(id_, None)
        if self._disk is not None:
            self._disk.remove(id_)
        self._memory.remove(id_)

    async def _image_client(self) -> APIClient:
        if self._images is None:
            self._images = await asyncio.to_thread(images.connect)
        return self._images

    async def close(self) -> None:
        """Closes every sandbox this backend started."""
        await asyncio.gather(*(sandbox.close() for sandbox in list(self._live.values())), return_exceptions=True)
        if self._images is not None:
            self._images.close()
        await self._engine.close()


def _disk_watch(engine: Engine, info: Mapping[str, Any]) -> DiskWatch | None:
    """What the whole sandbox writes can be looked after where the engine keeps it on this machine, for us to read."""
    place = Path(info.get("DockerRootDir") or "/nonexistent")
    local = engine.address.startswith("unix://") and info.get("Driver") == "overlay2"
    return DiskWatch(place) if local and os.access(place / "overlay2", os.R_OK | os.X_OK) else None


def container_config(image: Image, limits: Limits, owner: Owner) -> dict[str, Any]:
    """The body of `POST /containers/create`; see the module for the reasons."""
    memory = limits.memory_mb << 20
    return {
        "Image": image.ref,
        "Entrypoint": pid1(limits.lifetime_s),
        "Cmd": [],
        "Env": [f"{name}={value}" for name, value in image.spec.env.items()],
        "User": "0:0",
        "WorkingDir": "/",
        "OpenStdin": True,
        "Labels": lease("sandbox", owner, limits.lifetime_s),
        "HostConfig": {
            "AutoRemove": True,
            "NetworkMode": "bridge" if limits.network else "none",
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "Memory": memory,
            "MemorySwap": memory,
            "NanoCpus": int(limits.cpus * 1e9),
            "PidsLimit": limits.pids,
            "IpcMode": "private",
            "LogConfig": {"Type": "none"},
            "Ulimits": [
                {"Name": "core", "Soft": 0, "Hard": 0},
                {"Name": "fsize", "Soft": limits.disk_mb << 20, "Hard": limits.disk_mb << 20},
            ],
        },
    }


def _passes(error: SandboxError) -> bool:
    """Whether another attempt may succeed: not where the engine says that the request itself is wrong."""
    return not isinstance(error, EngineError) or error.status >= 500 or error.status in (409, 429)


def _remove_container(engine: Engine, container: str) -> None:
    """Blocks until the container is gone, also where somebody else (the engine, a reaper) is removing it already."""
    deadline = time.monotonic() + _IN_FLIGHT_S
    while True:
        try:
            return engine.remove_now(f"/containers/{container}", {"force": "true", "v": "true"})
        except EngineError as error:
            if error.status == 404 or (error.status == 409 and time.monotonic() > deadline):
                return None
            if error.status != 409:
                raise
        time.sleep(0.1)
