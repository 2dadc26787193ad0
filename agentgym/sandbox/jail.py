"""One bubblewrap sandbox as a process: how it is put together, and how programs are started in it.

Three layers of command, each `exec`ing the next so that one process is watched:

    unshare       a private mount namespace (and, for an ordinary user, a user namespace in which mounting is allowed)
    sh            joins the cgroups, mounts the overlay, binds the interpreter, all below a private tmpfs
    bwrap         new user, PID, network, IPC, UTS and cgroup namespaces; host /usr read-only; no capabilities;
                  a system call filter (`seccomp.py`)
    init.py       PID 1, which starts programs on request

As root the last two run under `SANDBOX_UID`, a user id that owns nothing on the host, so even a way out of the
sandbox leads to nobody. All of it dies with this process (`PR_SET_PDEATHSIG` at every level), and the mounts die with
their namespace.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import json
import os
import shlex
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.sandbox import init, ownfs, seccomp
from agentgym.sandbox.protocol import SandboxGone, StartError

SANDBOX_UID = 1_900_000_000
"""Host user of sandboxes that root starts: in a range that no allocator of user ids hands out."""

DISK_UPPER = "disk/upper"
"""Below the scratch mount point: what the sandbox wrote, where it has a file system of its own."""

_START_TIMEOUT_S = 30.0
_INIT = "/run/agentgym/init.py"


@dataclass(frozen=True, slots=True)
class Jail:
    """What to put together. lower: read-only trees, topmost first; upper: takes the writes; work: overlay's scratch space.

    writable: the directories that can be written, None: all but `/usr`. network: share the host's network.
    uid: how the programs see themselves. rlimits: name -> value.
    cgroup_procs: files to write our PID to. binds: further host directories everybody may read, source -> target.
    files: copies of host files, read-only, target -> source (a file, or a directory of files).
    disk: a file with a file system that takes the writes in place of `upper` and `work` (`ownfs.py`; root only).
    """

    lower: Sequence[Path]
    upper: Path
    work: Path
    uid: int = 1000
    writable: Sequence[str] | None = None
    network: bool = False
    hostname: str = "sandbox"
    rlimits: Mapping[str, int] = field(default_factory=dict)
    cgroup_procs: Sequence[Path] = ()
    binds: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    disk: Path | None = None

    def command(self, channel: int, info: int, filter_: int | None) -> list[str]:
        """The whole command line; `channel`, `info` and `filter_` are inherited descriptors."""
        prefix = Path(sys.base_prefix)
        mount = self.scratch
        outside_usr = not prefix.is_relative_to("/usr")
        lower = ":".join(_escape(path) for path in self.lower)
        upper = Path(mount, DISK_UPPER) if self.disk else self.upper
        work = Path(mount, "disk/work") if self.disk else self.work
        options = f"lowerdir={lower},upperdir={_escape(upper)},workdir={_escape(work)},userxattr"
        lines = ["set -e", *(f"echo $$ > {shlex.quote(str(path))}" for path in self.cgroup_procs)]
        lines += [
            "umask 022",
            f"mount -t tmpfs -o mode=755,size=4m agentgym {mount}",
            f"mkdir {mount}/root {mount}/python {mount}/disk",
            *(self._mount_disk(f"{mount}/disk") if self.disk else ()),
            f"mount -t overlay -o {shlex.quote(options)} agentgym {mount}/root",
        ]
        if outside_usr:
            lines.append(f"mount --rbind {shlex.quote(str(prefix))} {mount}/python")
        copies: dict[str, str] = {}
        for index, (target, source) in enumerate({_INIT: Path(init.__file__), **self.files}.items()):
            copies[target] = f"{mount}/file{index}"
            lines.append(f"cp -rL {shlex.quote(str(source))} {copies[target]}; chmod -R a+rX {copies[target]}")
        inner = self._bwrap(f"{mount}/root", f"{mount}/python" if outside_usr else None, copies)
        rlimits = json.dumps(dict(self.rlimits))
        interpreter = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
        inner += ["--seccomp", str(filter_)] if filter_ is not None else []
        inner += ["--info-fd", str(info), "--clearenv", "--", interpreter, "-I", "-S", _INIT, str(channel), rlimits]
        drop: list[str] = []
        unshare = ["unshare", "--mount", "--propagation", "private"]
        if os.geteuid() == 0:
            drop = ["setpriv", f"--reuid={SANDBOX_UID}", f"--regid={SANDBOX_UID}", "--clear-groups", "--no-new-privs"]
            drop += ["--inh-caps=-all", "--bounding-set=-all", "--"]
        else:
            unshare += ["--user", "--map-root-user"]
        lines.append("exec " + shlex.join([*drop, *inner]))
        return ["setpriv", "--pdeathsig", "KILL", "--", *unshare, "--", "/bin/sh", "-c", "\n".join(lines)]

    @property
    def scratch(self) -> str:
        """The directory below which everything is put together."""
        return _scratch_mountpoint([*self.lower, self.upper, Path(sys.base_prefix)])

    def _mount_disk(self, place: str) -> list[str]:
        return [
            f"mount -o {ownfs.MOUNT_OPTIONS} {shlex.quote(str(self.disk))} {place}",
            f"rm -rf {place}/lost+found; mkdir {place}/upper {place}/work",
            f"chown {SANDBOX_UID}:{SANDBOX_UID} {place}/upper {place}/work",
        ]

    def _bwrap(self, root: str, python: str | None, copies: Mapping[str, str]) -> list[str]:
        prefix = sys.base_prefix
        argv = ["bwrap", "--unshare-user", "--uid", str(self.uid), "--gid", str(self.uid), "--disable-userns"]
        argv += ["--unshare-pid", "--as-pid-1", "--unshare-ipc", "--unshare-uts", "--hostname", self.hostname]
        argv += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        argv += [] if self.network else ["--unshare-net"]
        whole = self.writable is None
        argv += ["--bind" if whole else "--ro-bind", root, "/", "--ro-bind", "/usr", "/usr"]
        argv += ["--bind" if whole else "--ro-bind", f"{root}/usr/local", "/usr/local"]
        for path in self.writable or ():
            argv += ["--bind", f"{root}{path}", path]
        for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
            if Path("/", name).is_dir() and not Path("/", name).is_symlink():
                argv += ["--ro-bind", f"/{name}", f"/{name}"]
        if python:
            argv += ["--ro-bind", python, prefix]
        for masked in _masked_directories():
            argv += ["--tmpfs", masked, "--remount-ro", masked]
        for source, target in self.binds.items():
            argv += ["--ro-bind", source, target]
        argv += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run", "--perms", "1777", "--tmpfs", "/dev/shm"]
        for target, source in copies.items():
            argv += ["--ro-bind", source, target]
        return argv


def _masked_directories() -> list[str]:
    """Python packages installed on the host: hidden, for they may be the very release a task asks for."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    candidates = ["/usr/lib/python3/dist-packages", f"{sys.base_prefix}/lib/{version}/site-packages"]
    return [path for path in candidates if Path(path).is_dir()]


def _scratch_mountpoint(sources: Sequence[Path]) -> str:
    """A directory that every Linux has and that hides none of `sources` when mounted over in our private namespace."""
    for candidate in ("/mnt", "/media", "/srv", "/opt", "/tmp"):
        if Path(candidate).is_dir() and not any(source.resolve().is_relative_to(candidate) for source in sources):
            return candidate
    raise StartError("no free mount point among /mnt, /media, /srv, /opt and /tmp")


def _escape(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")


class JailProcess:
    """A running jail. `pid`: of its PID 1, as the host sees it; None where bwrap did not say.

    upper: what it wrote, as a path of the host.
    """

    def __init__(self, process: asyncio.subprocess.Process, channel: socket.socket, jail: Jail) -> None:
        self._process = process
        # Its mounts are private; bubblewrap's own process, which stays outside the sandbox's root, shows them to root.
        view = f"/proc/{process.pid}/root{jail.scratch}/{DISK_UPPER}"
        self.upper = Path(view) if jail.disk else jail.upper
        self._channel = channel
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._count = 0
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Closed only once nobody waits for it: the loop goes on knowing the number of a descriptor that is closed earlier, and
        # the channel of the next sandbox, which gets the same number, would never be heard.
        self._reader = asyncio.create_task(self._read())
        self._reader.add_done_callback(lambda _: channel.close())
        self.gone = False
        self.pid: int | None = None

    @classmethod
    async def start(cls, jail: Jail) -> JailProcess:
        """Put it together and wait until PID 1 answers; StartError with what the tools said on the way."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        info_read, info_write = os.pipe2(os.O_CLOEXEC)
        filter_ = seccomp.descriptor()
        ours.setblocking(False)
        for own in (ours, theirs):
            own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        try:
            process = await asyncio.create_subprocess_exec(
                *jail.command(theirs.fileno(), info_write, filter_),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(theirs.fileno(), info_write, *([] if filter_ is None else [filter_])),
                env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            os.close(info_read)
            raise StartError(f"cannot start a sandbox process: {error}") from error
        finally:
            theirs.close()
            os.close(info_write)
            if filter_ is not None:
                os.close(filter_)
        running = cls(process, ours, jail)
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                await asyncio.shield(running._ready)
        except (SandboxGone, TimeoutError) as error:
            await running.kill()
            assert process.stderr is not None
            said = (await process.stderr.read()).decode("utf-8", errors="replace").strip()
            raise StartError(f"bubblewrap gave no sandbox: {said or error!r}") from error
        except asyncio.CancelledError:
            await running.kill()
            raise
        finally:
            with contextlib.suppress(ValueError, KeyError), os.fdopen(info_read, "rb") as file:
                running.pid = int(json.loads(file.read())["child-pid"]) if running._ready.done() else None
        return running

    async def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str, descriptors: Sequence[int]
    ) -> asyncio.Future[int]:
        """Start a program on three descriptors (stdin, stdout, stderr; ours stay open). The future: its exit code."""
        if self.gone:
            raise SandboxGone("the sandbox has ended")
        self._count += 1
        request = self._count
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        message = json.dumps({"id": request, "argv": list(argv), "env": dict(env), "cwd": cwd}).encode()
        self._waiting[request] = future
        await self._send(message, descriptors)
        return future

    async def kill_all(self) -> None:
        """Kill every process in the sandbox except PID 1."""
        await self._send(b'{"kill": true}', ())

    async def kill(self) -> None:
        """End the sandbox; returns when the kernel has ended all its processes."""
        self._end("the sandbox was closed")
        with contextlib.suppress(ProcessLookupError):
            if self.pid is not None:
                os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    async def _send(self, message: bytes, descriptors: Sequence[int]) -> None:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        while True:
            try:
                self._channel.sendmsg([message], ancillary)
                return
            except BlockingIOError:
                await asyncio.sleep(0.005)
            except OSError as error:
                self._end(str(error))
                raise SandboxGone(f"the sandbox has ended: {error}") from error

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        reason = "its PID 1 ended"
        try:
            while data := await loop.sock_recv(self._channel, 1 << 16):
                message = json.loads(data)
                if "ready" in message:
                    self._ready.set_result(None)
                elif (future := self._waiting.pop(message["id"], None)) and not future.done():
                    future.set_result(message["status"])
        except OSError as error:
            reason = str(error)
        self._end(f"the sandbox has ended: {reason}")

    def _end(self, reason: str) -> None:
        if self.gone:
            return
        self.gone = True
        for future in [self._ready, *self._waiting.values()]:
            if not future.done():
                future.set_exception(SandboxGone(reason))
                future.exception()  # retrieved: nobody may be waiting any more
        self._waiting.clear()
        self._reader.cancel()
