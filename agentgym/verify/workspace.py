"""Take the workspace out of a sandbox as plain data: path -> file, nothing executed, nothing written to the host's
disk.

Everything read here was written by the agent. It may have replaced `tar`, `git` or the shell; the worst such a
program can do is to send other *content*, which the agent could have put into the files anyway. What is guarded is
the host: the stream is capped, names that climb out of the workspace or into a `.git` are dropped, links are kept as
links and never followed, devices, sockets and FIFOs are refused.
"""

from __future__ import annotations

import io
import shlex
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass

from agentgym.sandbox.protocol import Sandbox

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MAX_WORKSPACE_BYTES = 512 * 1024 * 1024
MAX_FILES = 200_000

REGULAR, EXECUTABLE, SYMLINK = "100644", "100755", "120000"


class UnreadableWorkspace(Exception):
    """The sandbox answers but its workspace does not come out as a bounded, well-formed archive: no solution can be
    read.
    """


@dataclass(frozen=True, slots=True)
class File:
    """mode: git's "100644", "100755" or "120000"; data: the content, of a link its target."""

    mode: str
    data: bytes


def is_safe(path: str) -> bool:
    """True for a relative path that stays in the workspace and does not enter a `.git`."""
    parts = path.split("/")
    return (
        bool(path) and not any(part in ("", ".", "..") or part.lower() == ".git" for part in parts) and "\0" not in path
    )


async def read_workspace(sandbox: Sandbox, workdir: str, *, max_bytes: int = MAX_WORKSPACE_BYTES) -> dict[str, File]:
    """All regular files and links below `workdir`. Raises UnreadableWorkspace; SandboxError where the sandbox itself
    fails.
    """
    command = f"cd {shlex.quote(workdir)} && PATH={SYSTEM_PATH} exec tar -cf - --exclude=./.git . 2>/dev/null"
    result = await sandbox.exec(command, timeout=300.0, output_limit=max_bytes)
    if result.timed_out:
        raise UnreadableWorkspace("reading the workspace did not end within 300 s")
    if result.omitted_bytes:
        raise UnreadableWorkspace(f"the workspace is larger than {max_bytes} bytes")
    return unpack(result.output)


def unpack(archive: bytes) -> dict[str, File]:
    """The regular files and links of a tar archive, by workspace-relative path; a hard link becomes a copy."""
    files: dict[str, File] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
            for member in tar:
                path = member.name.removeprefix("./")
                if not is_safe(path):
                    continue
                if member.issym():
                    files[path] = File(SYMLINK, member.linkname.encode("utf-8", "surrogateescape"))
                elif member.islnk():
                    source = files.get(member.linkname.removeprefix("./"))
                    if source is not None:
                        files[path] = source
                elif member.isreg():
                    stream = tar.extractfile(member)
                    data = stream.read() if stream is not None else b""
                    files[path] = File(EXECUTABLE if member.mode & 0o100 else REGULAR, data)
                if len(files) > MAX_FILES:
                    raise UnreadableWorkspace(f"the workspace holds more than {MAX_FILES} files")
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        raise UnreadableWorkspace(f"the workspace does not come out as a tar archive: {error}") from error
    return files


def pack(files: Iterable[tuple[str, File]]) -> bytes:
    """A tar archive of the given files, owned by root, for a sandbox that nothing hostile has touched yet."""
    buffer = io.BytesIO()
    with tarfile.open(
        fileobj=buffer, mode="w:", format=tarfile.PAX_FORMAT, encoding="utf-8", errors="surrogateescape"
    ) as tar:
        for path, file in files:
            member = tarfile.TarInfo(path)
            if file.mode == SYMLINK:
                member.type, member.linkname = tarfile.SYMTYPE, file.data.decode("utf-8", "surrogateescape")
                tar.addfile(member)
            else:
                member.mode = 0o755 if file.mode == EXECUTABLE else 0o644
                member.size = len(file.data)
                tar.addfile(member, io.BytesIO(file.data))
    return buffer.getvalue()
