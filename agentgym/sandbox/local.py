"""The `local` backend: sandboxes without a container engine, by bubblewrap, for root and for ordinary users.

A sandbox is one jail (`agentgym.sandbox.jail`) over an image's layers, a directory that takes its writes, a control
group where we may make one, and a lease in a JSON file beside the directory. The lease names the owner, so that any
later process can remove what a killed one left: the processes are dead already (the kernel kills them with their
owner), the directory and the control group are what remains.

Weaker than a container engine in two ways, both said in `enforced`: the kernel and the host's programs are shared, and
without root limits hold per process rather than per sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import posixpath
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentgym.sandbox import archive, cgroups, files, hostbase, labels, localbuild, ownfs, seccomp
from agentgym.sandbox.channel import Channel, Stream
from agentgym.sandbox.channel_sandbox import ChannelSandbox
from agentgym.sandbox.diskwatch import DiskWatch
from agentgym.sandbox.finish import AGENT_HOME
from agentgym.sandbox.jail import SANDBOX_UID, Jail, JailProcess
from agentgym.sandbox.layers import LocalImage, give_to_sandbox, remove_tree
from agentgym.sandbox.memorywatch import MemoryWatch
from agentgym.sandbox.paths import state_dir
from agentgym.sandbox.process import run_logged
from agentgym.sandbox.programs import Ended, open_program, run_program
from agentgym.sandbox.protocol import (
    BackendUnavailable,
    FileError,
    Image,
    ImageSpec,
    Limits,
    SandboxGone,
    StartError,
)


class LocalSandbox(ChannelSandbox):
    """See `agentgym.sandbox.protocol.Sandbox`."""

    backend = "local"

    def __init__(
        self,
        backend: LocalBackend,
        id_: str,
        image: Image,
        record: LocalImage,
        jail: JailProcess,
        group: cgroups.Cgroup | None,
        limits: Limits,
    ) -> None:
        self.id = id_
        self.image = image
        self._backend = backend
        self._record = record
        self._jail = jail
        self._group = group
        self._env = {**record.env, "AGENTGYM_PIDS": str(limits.pids)}
        self._channel = Channel(self.open_stream, workdir=record.workdir, rescue=self.rescue)
        self._expiry: asyncio.TimerHandle | None = None

    async def open_stream(self) -> Stream:
        stream, _ = await open_program(self._jail, ["/bin/sh"], env=self._env, cwd=self._record.workdir)
        return stream

    async def upload(self, source: Path, target: str) -> None:
        target = files.checked(target)
        parent = target if await asyncio.to_thread(source.is_dir) else posixpath.dirname(target)
        with tempfile.TemporaryFile() as tar:
            await asyncio.to_thread(archive.pack, source, target, tar, uid=0, gid=0, new_parents=[])
            tar.seek(0)
            script = 'mkdir -p -- "$1" && exec tar -x --no-same-owner -p -C / -f -'
            ended = await self._run(["/bin/sh", "-c", script, "upload", parent], stdin=tar.fileno())
        _require(ended, f"cannot upload to {target}")

    async def download(self, source: str, target: Path) -> None:
        source = files.checked(source)
        where, name = posixpath.split(source)
        with tempfile.TemporaryFile() as tar:
            ended = await self._run(["tar", "-c", "-C", where, "-f", "-", "--", name or "."], sink=tar.write)
            _require(ended, f"cannot download {source}")
            tar.seek(0)
            await asyncio.to_thread(archive.unpack, tar, target)

    async def _run(
        self, argv: list[str], *, stdin: int | bytes = b"", sink: Callable[[bytes], object] | None = None
    ) -> Ended:
        self._check()
        return await run_program(self._jail, argv, env=self._env, stdin=stdin, sink=sink)

    async def snapshot(self) -> Image:
        self._check()
        return await self._backend.snapshot(self.id, self.image, self._record, self._jail.upper)

    async def written(self) -> Path | None:
        """See `diskwatch.Watched`."""
        return self._jail.upper

    async def stop_writing(self) -> None:
        self._channel.disk_full = True
        await self.rescue()

    async def memory_groups(self) -> Sequence[Path]:
        """See `memorywatch.Watched`."""
        return self._groups

    async def _end_processes(self) -> None:
        with cgroups.without_cpu_limit(self._groups):
            await self._jail.kill_all()
            await cgroups.until_quiet(self._groups)

    @property
    def _groups(self) -> tuple[Path, ...]:
        return self._group.directories if self._group else ()

    def _check(self) -> None:
        if self._jail.gone or self._closing is not None:
            raise SandboxGone(f"sandbox {self.id} has ended")

    async def _close(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        await self._channel.close()
        with cgroups.without_cpu_limit(self._groups):
            await self._jail.kill()
        self._backend.forget(self.id)
        await asyncio.to_thread(_remove, self._backend.root / self.id, self._groups)


HARBOR_FOLDERS = ("/logs", "/tests", "/solution")
"""Where Harbor's scripts read and write; an image that has them wants its user to."""


def _writable(record: LocalImage) -> list[str] | None:
    """The directories that commands can write, None: all but `/usr`."""
    if record.workdir == "/":
        return None
    harbor = [path for path in HARBOR_FOLDERS if any(Path(f"{lower}{path}").is_dir() for lower in record.lower)]
    return ["/tmp", "/var/tmp", AGENT_HOME, record.workdir, *harbor]


class LocalBackend:
    """See `agentgym.sandbox.protocol.SandboxBackend`. `enforced`: resource -> how it is limited here, for people."""

    name = "local"

    def __init__(self, owner: labels.Owner, enforced: dict[str, str]) -> None:
        self._owner = owner
        self._live: dict[str, LocalSandbox] = {}
        self.enforced = enforced
        self._own_disks = False
        self._disk = DiskWatch(self.root)
        self._memory = MemoryWatch()

    @classmethod
    async def open(cls, owner: str | None = None) -> LocalBackend:
        """Starts one empty sandbox to see that it works here; BackendUnavailable, with what to do, where it does not."""
        for program, package in (("bwrap", "bubblewrap"), ("unshare", "util-linux"), ("tar", "tar")):
            if shutil.which(program) is None:
                raise BackendUnavailable(
                    f"the local backend needs {package}, and there is no `{program}`", hint=f"apt-get install {package}"
                )
        backend = cls(labels.Owner.current(owner or ""), await asyncio.to_thread(describe_enforcement))
        await backend._probe()
        return backend

    @property
    def root(self) -> Path:
        return state_dir() / "local"

    async def ensure_image(self, spec: ImageSpec) -> Image:
        return await localbuild.build(spec)

    async def start(self, image: Image, limits: Limits = Limits()) -> LocalSandbox:
        record = LocalImage.load(Path(image.ref))
        id_ = f"agentgym-{secrets.token_hex(6)}"
        directory = self.root / id_
        for name in ("upper", "work"):
            (directory / name).mkdir(parents=True)
        give_to_sandbox(directory / "upper")
        disk = directory / "disk" if self._own_disks else None
        record.save(directory / "image.json")  # says which layers are in use
        group = cgroups.create(id_, limits)
        self._write_lease(
            directory, "sandbox", limits.lifetime_s, {"cgroups": [str(d) for d in group.directories] if group else []}
        )
        jail = Jail(
            lower=record.lower,
            upper=directory / "upper",
            work=directory / "work",
            writable=_writable(record),
            network=limits.network,
            rlimits=_rlimits(limits, group.enforced if group else frozenset()),
            cgroup_procs=group.procs if group else (),
            binds=dict(group.events) if group else {},
            files={"/etc/resolv.conf": Path("/etc/resolv.conf")} if limits.network else {},
            disk=disk,
        )
        try:
            if disk is not None:
                await ownfs.make(disk, limits.disk_mb, uid=SANDBOX_UID)
            process = await JailProcess.start(jail)
        except BaseException:
            await asyncio.shield(asyncio.to_thread(_remove, directory, group.directories if group else ()))
            raise
        sandbox = LocalSandbox(self, id_, image, record, process, group, limits)
        self._live[id_] = sandbox
        if disk is None:
            self._disk.add(sandbox, limits.disk_mb << 20)
        self._memory.add(sandbox)
        try:
            await sandbox._channel.open()
        except BaseException as error:
            await sandbox.close()
            if isinstance(error, SandboxGone):
                raise StartError(f"sandbox {id_} ended while it was starting: {error}") from error
            raise
        loop = asyncio.get_running_loop()
        sandbox._expiry = loop.call_later(limits.lifetime_s, lambda: asyncio.ensure_future(sandbox.close()))
        return sandbox

    async def snapshot(self, id_: str, image: Image, record: LocalImage, upper: Path) -> Image:
        """Copy what the sandbox has written into a layer of its own, on top of its image's layers."""
        directory = self.root / f"{id_}-snapshot-{secrets.token_hex(4)}"
        directory.mkdir(parents=True)
        self._write_lease(directory, "snapshot", 24 * 3600.0, {})
        layer = directory / "upper"
        copy = ["cp", "-a", "--reflink=auto", "--sparse=auto", str(upper), str(layer)]
        await run_logged(copy, what=f"snapshot of {id_}", log=lambda _: None)
        digest = f"sha256:{secrets.token_hex(32)}"
        path = directory / "image.json"
        replace(record, digest=digest, layers=(*record.layers, str(layer))).save(path)
        return Image(spec=image.spec, ref=str(path), digest=digest, backend=self.name)

    async def reap(self, *, everything: bool = False) -> int:
        removed = 0
        for directory in sorted(self.root.glob("agentgym-*")):
            try:
                lease = json.loads((directory / "lease.json").read_text())
            except (OSError, ValueError):
                lease = None  # killed between making the directory and writing its lease
            if lease is None:
                stale = everything or _age_s(directory) > 60
            else:
                stale = everything or labels.abandoned(lease["labels"]) is not None
            if stale:
                if live := self._live.get(directory.name):
                    await live.close()
                    removed += 1
                elif claimed := _claim(directory):
                    groups = tuple(Path(path) for path in (lease or {}).get("cgroups", ()))
                    await asyncio.to_thread(_remove, claimed, groups)
                    removed += 1
        for directory in self.root.glob("removing-*"):  # claimed by a reaper that was killed, or is still at it
            await asyncio.to_thread(_remove, directory, ())
        return removed

    async def close(self) -> None:
        await asyncio.gather(*(sandbox.close() for sandbox in list(self._live.values())))

    async def _probe(self) -> None:
        directory = self.root / f"agentgym-probe-{secrets.token_hex(6)}"
        for name in ("lower", "upper", "work"):
            (directory / name).mkdir(parents=True)
        await asyncio.to_thread(hostbase.lay_out_frame, directory / "lower")
        give_to_sandbox(directory / "lower")
        give_to_sandbox(directory / "upper")
        try:
            jail = Jail([directory / "lower"], directory / "upper", directory / "work")
            await (await JailProcess.start(jail)).kill()
            self._own_disks = await ownfs.usable(directory)
            self.enforced["disk"] = _OWN_DISK if self._own_disks else _WATCHED_DISK
        except StartError as error:
            raise BackendUnavailable(
                f"bubblewrap is here but cannot make a sandbox: {error}",
                hint="allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1), or use docker",
            ) from error
        finally:
            await asyncio.to_thread(remove_tree, directory)

    def forget(self, id_: str) -> None:
        self._live.pop(id_, None)
        self._disk.remove(id_)
        self._memory.remove(id_)

    def _write_lease(self, directory: Path, kind: labels.Kind, lifetime_s: float, more: Mapping[str, object]) -> None:
        lease = {"labels": labels.lease(kind, self._owner, lifetime_s), **more}
        temporary = directory / "lease.tmp"
        temporary.write_text(json.dumps(lease))
        temporary.rename(directory / "lease.json")


_OWN_DISK = "file system of its own, whole sandbox"
_WATCHED_DISK = "looked after twice a second, whole sandbox; rlimit, each file (RLIMIT_FSIZE)"


def describe_enforcement() -> dict[str, str]:
    """What limits a sandbox on this machine, resource by resource."""
    group = cgroups.create(f"probe-{secrets.token_hex(4)}", Limits())
    have = group.enforced if group else frozenset()
    if group:
        group.remove()
    whole, each = "control group, whole sandbox", "rlimit, each process"
    return {
        "memory": whole if "memory" in have else f"{each} (RLIMIT_DATA)",
        "pids": whole if "pids" in have else "rlimit, whole sandbox (RLIMIT_NPROC)",
        "cpus": whole if "cpus" in have else "not limited",
        "disk": _WATCHED_DISK,
        "time": "killed when its lifetime ends or its owner dies",
        "network": "own network namespace, loopback only",
        "system calls": "filtered (seccomp)" if seccomp.program() else "not filtered: no list for this machine",
        "user": "unprivileged host user" if os.geteuid() == 0 else "the user who runs this",
    }


def _rlimits(limits: Limits, enforced: frozenset[str]) -> dict[str, int]:
    rlimits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": limits.disk_mb << 20}
    if "memory" not in enforced:
        rlimits["RLIMIT_DATA"] = limits.memory_mb << 20
    if "pids" not in enforced:
        rlimits["RLIMIT_NPROC"] = limits.pids
    return rlimits


def _remove(directory: Path, groups: tuple[Path, ...]) -> None:
    cgroups.remove(groups)
    with contextlib.suppress(OSError):  # what is left is the next reaper's
        remove_tree(directory)


def _claim(directory: Path) -> Path | None:
    """Rename, so that one of several reapers gets it; None where another did."""
    claimed = directory.with_name(f"removing-{directory.name}")
    try:
        directory.rename(claimed)
    except OSError:
        return None
    return claimed


def _age_s(directory: Path) -> float:
    try:
        return time.time() - directory.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _require(ended: Ended, what: str) -> None:
    if ended.status != 0:
        raise FileError(f"{what}: {(ended.errors or ended.output).decode('utf-8', errors='replace').strip()[-500:]}")
