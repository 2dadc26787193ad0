"""The sandbox protocol: everything above this room knows about where a command runs.

A *backend* turns an `ImageSpec` into an image and an image into live sandboxes; a *sandbox* runs commands and moves
files. How a sandbox comes to be (backend) is kept apart from how a command runs in it (one open channel per sandbox).
Paths are absolute POSIX paths inside the sandbox. All methods raise `SandboxError` subclasses; a command that fails,
times out or is killed is a result, not an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from agentgym.errors import AgentGymError, MachineError


class SandboxError(AgentGymError):
    """A sandbox, not the policy, failed. `retry_safe`: a fresh sandbox may succeed where this one failed."""

    retry_safe = True

    def __init__(self, message: str, *, hint: str | None = None, retry_safe: bool | None = None) -> None:
        super().__init__(message, hint=hint)
        if retry_safe is not None:
            self.retry_safe = retry_safe


class StartError(SandboxError):
    """The engine did not give a running sandbox; not safe to retry where it says that it never will."""


class ImageError(SandboxError):
    """The image is missing or does not build; the message ends with the tail of the build log."""

    retry_safe = False


class TransportError(SandboxError):
    """The channel to a live sandbox broke (engine died, container removed)."""


class SandboxGone(TransportError):
    """The sandbox no longer exists (killed, expired, lost with its node)."""


class SandboxExpired(SandboxGone):
    """The time limit of the whole sandbox has passed."""


class FileError(SandboxError):
    """A file operation was refused or failed (missing, too large, path traversal, disk full)."""

    retry_safe = False


class BackendUnavailable(MachineError):
    """No usable engine of this kind on this machine; the hint says how to get one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Resources of one sandbox; enforced by the engine. lifetime_s: it is closed after that.

    network: all of it. allow_hosts: without `network`, these hosts through a proxy all the same (`egress.py`).
    """

    cpus: float = 1.0
    memory_mb: int = 2048
    pids: int = 512
    disk_mb: int = 4096
    lifetime_s: float = 3600.0
    network: bool = False
    allow_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Overlay:
    """Files that the Dockerfile's last line copies to the workdir, so that an image without them serves many tasks.

    folder: name in the build context. below: "sha256:..." of everything that line does not read (the key of that image).
    """

    folder: str
    below: str


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """What an image is built from: a directory with a Dockerfile, or a name to pull.

    context: build context, holds `Dockerfile`. digest: "sha256:..." of everything the build reads (the cache key).
    workdir: where commands start. user: "agent", our unprivileged one who owns the workdir, or "image", whom the image
    itself names (root where it names nobody): never with more capabilities than none. The local backend knows only the first.
    overlay: may be used to share an image; building the whole Dockerfile gives the same.
    """

    name: str
    digest: str
    context: Path | None = None
    docker_image: str | None = None
    workdir: str = "/testbed"
    env: Mapping[str, str] = field(default_factory=dict)
    user: Literal["agent", "image"] = "agent"
    overlay: Overlay | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """A built image. ref: what the backend starts from (tag or directory). digest: identifies the content that runs."""

    spec: ImageSpec
    ref: str
    digest: str
    backend: str


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What one command did.

    exit_code: 0-255, 128+n for signal n; None when it timed out. output: stdout and stderr as interleaved, capped to head and
    tail with `omitted_bytes` dropped between (the head is the larger half of the call's output_limit). timed_out: its
    whole process group was killed. oom_killed: the memory limit killed something meanwhile. disk_full: the disk limit had
    everything killed that ran. duration: seconds.
    reopened: the shell behind the call was lost and replaced; what ran in the background may be gone.
    """

    exit_code: int | None
    output: bytes
    omitted_bytes: int = 0
    timed_out: bool = False
    oom_killed: bool = False
    disk_full: bool = False
    duration: float = 0.0
    reopened: bool = False

    @property
    def text(self) -> str:
        """The output for people and policies; what was dropped is said where it was dropped."""
        if not self.omitted_bytes:
            return self.output.decode("utf-8", errors="replace")
        half = (len(self.output) + 1) // 2
        head, tail = (part.decode("utf-8", errors="replace") for part in (self.output[:half], self.output[half:]))
        return f"{head}\n[... {self.omitted_bytes} bytes omitted ...]\n{tail}"


class Stream(Protocol):
    """The stdin and stdout of a `/bin/sh` started in a sandbox."""

    @property
    def ended(self) -> bool:
        """Known to have ended, or to be cut off: a request would reach nobody."""
        ...

    async def read(self, limit: int) -> bytes:
        """At most `limit` bytes of its output; b"" once it has ended. TransportError: cut off, and it may go on unseen."""
        ...

    async def write(self, data: bytes) -> None:
        """Raises OSError once it has ended."""
        ...

    def close(self) -> None:
        """Ends the shell (its stdin closes) and frees the stream; safe to call twice."""
        ...


class Sandbox(Protocol):
    """One live, isolated environment."""

    id: str
    backend: str
    image: Image

    async def exec(
        self,
        command: str,
        *,
        timeout: float = 60.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stateful: bool = False,
        output_limit: int = 1_000_000,
        stdin: bytes | None = None,
    ) -> ExecResult:
        """Run `command` with `bash -c` (sh where there is no bash) in its own process group.

        Returns when the command itself ends, also if a background child still holds its output. stateful: cwd and
        exported variables are taken from, and left for, the other stateful calls of this sandbox; concurrent stateful
        calls are serialised, others run in parallel. stdin is closed unless given.
        """
        ...

    async def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes: ...

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Replace the content; parents are made; the mode of an existing file is kept unless given."""
        ...

    async def upload(self, source: Path, target: str) -> None:
        """Copy a local file, or the content of a local directory, to `target`; links and modes are kept."""
        ...

    async def download(self, source: str, target: Path) -> None: ...

    async def open_stream(self) -> Stream:
        """A `/bin/sh` of its own, for what is more than a command; ends with the sandbox."""
        ...

    async def snapshot(self) -> Image:
        """Freeze the file system as an image that `SandboxBackend.start` accepts; the sandbox goes on."""
        ...

    async def close(self) -> None:
        """Remove the sandbox and all it holds; safe to call twice, and from a cancelled task."""
        ...


class SandboxBackend(Protocol):
    """An engine that makes sandboxes."""

    name: str

    async def ensure_image(self, spec: ImageSpec) -> Image:
        """Build or pull once per digest, also under concurrency; raises ImageError with the tail of the log."""
        ...

    async def start(self, image: Image, limits: Limits = Limits()) -> Sandbox: ...

    async def reap(self, *, everything: bool = False) -> int:
        """Remove what dead or expired owners left behind, from labels alone; returns the count.

        everything: also what living owners hold.
        """
        ...

    async def close(self) -> None: ...
