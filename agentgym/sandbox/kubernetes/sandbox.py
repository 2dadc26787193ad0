"""A sandbox that is a pod: commands and files through websockets, the pod's fate through the watch.

Commands go through the same channel as everywhere (`agentgym.sandbox.channel`): one shell in the pod, one websocket kept open. A
second shell stands by from the start, for Kubernetes has no way to make room in a pod that a fork bomb has filled: only a
shell that is there already can end it. Trees and snapshots go through a process and websocket of their own, as tar archives.
"""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO

from agentgym.sandbox import archive, files, shell
from agentgym.sandbox.channel import Channel
from agentgym.sandbox.channel_sandbox import ChannelSandbox
from agentgym.sandbox.kubernetes import snapshot
from agentgym.sandbox.kubernetes.cluster import Cluster
from agentgym.sandbox.kubernetes.stream import PodStream
from agentgym.sandbox.labels import lease
from agentgym.sandbox.lane import Lane, LaneClosed
from agentgym.sandbox.protocol import FileError, Image, Limits, SandboxGone, TransportError

_CHUNK = 1 << 18
_SNAPSHOT_S = 24 * 3600.0
_RESCUE_S = 30.0


class KubernetesSandbox(ChannelSandbox):
    """See `agentgym.sandbox.protocol.Sandbox`. Made by `KubernetesBackend.start`."""

    backend = "kubernetes"

    def __init__(self, cluster: Cluster, name: str, image: Image, limits: Limits, forget: Callable[[], object]) -> None:
        self.id = name
        self.image = image
        self._cluster = cluster
        self._limits = limits
        self._forget = forget
        self._channel = Channel(self.open_stream, workdir=image.spec.workdir, rescue=self.rescue)
        self._guard: asyncio.Task[tuple[PodStream, Lane]] | None = None
        self._began = 0.0  # by the pod's clock

    async def open(self) -> None:
        """Opens the channel, and asks for the time, from which on all changes are the sandbox's own."""
        guard = self._stand_guard()
        await self._channel.open()
        answer = await self._channel.exec(snapshot.CLOCK, cwd="/")
        with contextlib.suppress(ValueError):  # no `date` with nanoseconds: then there are no snapshots
            self._began = float(answer.text)
        try:
            await guard
        except (LaneClosed, TimeoutError) as error:
            raise TransportError(f"no second shell in sandbox {self.id}: {error!r}") from error

    async def upload(self, source: Path, target: str) -> None:
        target = files.checked(target)
        parent = target if await asyncio.to_thread(source.is_dir) else posixpath.dirname(target)
        with tempfile.TemporaryFile() as tar:
            await asyncio.to_thread(archive.pack, source, target, tar, uid=0, gid=0, new_parents=[])
            size = tar.tell()
            tar.seek(0)
            script = f'mkdir -p -- "$1" && head -c {size} | tar -x --no-same-owner -p -C / -f -'
            await self._run([script, "upload", parent], f"cannot upload to {target}", stdin=tar)

    async def download(self, source: str, target: Path) -> None:
        where, name = posixpath.split(files.checked(source))
        with tempfile.TemporaryFile() as tar:
            script = 'exec tar -c -C "$1" -f - -- "$2"'
            await self._run([script, "download", where, name or "."], f"cannot download {source}", sink=tar.write)
            tar.seek(0)
            await asyncio.to_thread(archive.unpack, tar, target)

    async def snapshot(self) -> Image:
        self._check()
        if not self._began:
            raise FileError("snapshots of this image are not possible", hint="it needs bash, GNU find, date and tar")
        base = (
            self.image.ref
            if not self.image.ref.startswith(snapshot.SCHEME)
            else snapshot.Stored.load(self.image.ref).image
        )
        receiver = snapshot.Receiver(base, lease("snapshot", self._cluster.owner, _SNAPSHOT_S))
        try:
            script = snapshot.capture(self._began)
            await self._run([script], "cannot take a snapshot", sink=receiver.feed, shell="bash")
            stored = receiver.finish()
        except BaseException:
            receiver.discard()
            raise
        reference = f"{snapshot.SCHEME}{stored.root}"
        return replace(self.image, ref=reference, digest=f"{self.image.digest}+{stored.root.name}")

    async def lay(self, stored: snapshot.Stored) -> None:
        """Lays a snapshot over this fresh sandbox. The time of its beginning stays: all of it counts as changed."""
        with stored.data.open("rb") as data:
            script = snapshot.restore(stored.names, stored.archive)
            await self._run([script], "cannot restore a snapshot", stdin=data, shell="bash")

    async def _close(self) -> None:
        await self._channel.close()
        if self._guard is not None:
            self._guard.cancel()
            with contextlib.suppress(asyncio.CancelledError, TimeoutError, TransportError, LaneClosed):
                (await self._guard)[1].close()
        await self._cluster.delete(self.id)
        self._forget()

    def _check(self) -> None:
        if self._closing is not None:
            raise SandboxGone(f"sandbox {self.id} is closed")

    # -- processes in the pod -----------------------------------------------------------------------------------------

    async def open_stream(self) -> PodStream:
        """A shell under this sandbox's limits: Kubernetes knows none for file sizes, and none for one pod's processes."""
        blocks = self._limits.disk_mb * 2048
        limits = f"ulimit -c 0; ulimit -f {blocks}; export AGENTGYM_PIDS={self._limits.pids}; exec /bin/sh"
        return await self._cluster.exec(self.id, ["/bin/sh", "-c", limits])

    async def _run(
        self,
        arguments: list[str],
        what: str,
        *,
        stdin: IO[bytes] | None = None,
        sink: Callable[[bytes], object] | None = None,
        shell: str = "/bin/sh",
    ) -> None:
        """Runs a script (and its arguments) to its end; FileError, beginning with `what`, where it fails."""
        self._check()
        stream = await self._cluster.exec(self.id, [shell, "-c", *arguments], stderr=True)
        feeding = asyncio.create_task(_feed(stream, stdin)) if stdin is not None else None
        try:
            while data := await stream.read(_CHUNK):
                if sink is not None:
                    sink(data)
        finally:
            if feeding is not None:
                feeding.cancel()
            stream.close()
        if stream.status != 0:
            said = stream.errors.decode("utf-8", errors="replace").strip()[-500:]
            raise FileError(f"{what}: {said or f'exit code {stream.status}'}")

    # -- fork bombs ---------------------------------------------------------------------------------------------------

    def _stand_guard(self) -> asyncio.Task[tuple[PodStream, Lane]]:
        self._guard = guard = asyncio.create_task(self._open_guard())
        guard.add_done_callback(lambda task: task.cancelled() or task.exception())
        return guard

    async def _open_guard(self) -> tuple[PodStream, Lane]:
        stream = await self.open_stream()
        lane = Lane(stream)
        try:
            await asyncio.wait_for(lane.hello(), _RESCUE_S)
            await asyncio.wait_for(lane.ask(shell.idle_request()), _RESCUE_S)  # it can fork, and counts the processes
        except BaseException:
            lane.close()
            raise
        return stream, lane

    async def _end_processes(self) -> None:
        """Kills everything the user runs, from the shell that stands by, else from a new one; returns once a new one does."""
        deadline = time.monotonic() + _RESCUE_S
        while True:
            with contextlib.suppress(LaneClosed, TimeoutError, TransportError):
                await self._kill_all()
            try:
                _, lane = await self._stand_guard()
                if not lane.outcome.full:
                    return
            except SandboxGone:
                raise
            except (LaneClosed, TimeoutError, TransportError):
                self._guard = None
            if time.monotonic() > deadline:
                raise SandboxGone(f"sandbox {self.id} is full of processes, and no shell can end them")
            await asyncio.sleep(0.3)

    async def _kill_all(self) -> None:
        """Raises where no shell was there to do it. It is among the killed itself, so it need not answer."""
        guard, self._guard = self._guard or asyncio.create_task(self._open_guard()), None
        stream, lane = await guard
        try:
            if not stream.ended:
                with contextlib.suppress(LaneClosed):
                    await asyncio.wait_for(lane.ask(shell.kill_all_request()), _RESCUE_S)
        finally:
            lane.close()


async def _feed(stream: PodStream, file: IO[bytes]) -> None:
    with contextlib.suppress(OSError):  # a process that ends early says why on its own
        while data := await asyncio.to_thread(file.read, _CHUNK):
            await stream.write(data)
