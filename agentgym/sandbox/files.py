"""Single files in and out of a sandbox, through the same channel as commands.

So they see what a command sees: the same user, the same mounts, the same symlinks. Content travels over stdin and
stdout, never in an argument. Whole trees go through `archive.py`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable
from typing import Protocol

from agentgym.sandbox.protocol import ExecResult, FileError
from agentgym.sandbox.shell import quote

MAX_READ_BYTES = 1 << 30
_TIMEOUT_S = 120.0


class Executes(Protocol):
    """The part of a sandbox that files need."""

    def exec(
        self,
        command: str,
        *,
        timeout: float = ...,
        cwd: str | None = ...,
        output_limit: int = ...,
        stdin: bytes | None = ...,
    ) -> Awaitable[ExecResult]: ...


def checked(path: str) -> str:
    """`path`, if it is absolute and names one place; FileError otherwise."""
    if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise FileError(f"path {path!r} is refused", hint="give an absolute path without '..' and NUL")
    return posixpath.normpath(path)


async def read_file(sandbox: Executes, path: str, max_bytes: int | None = None) -> bytes:
    """The content of a regular file; FileError where it is missing, no file, not readable, or larger than `max_bytes`."""
    limit = MAX_READ_BYTES if max_bytes is None else max_bytes
    name = _word(checked(path))
    script = f"[ -f {name} ] || {{ ls -d -- {name} >/dev/null && echo 'not a regular file'; exit 1; }}; "
    result = await sandbox.exec(
        script + f"exec head -c {limit + 1} -- {name}", timeout=_TIMEOUT_S, output_limit=limit + 4096, cwd="/"
    )
    if result.exit_code != 0:
        raise FileError(f"cannot read {path}: {_reason(result)}")
    if len(result.output) > limit:
        raise FileError(f"cannot read {path}: it has more than {limit} bytes")
    return result.output


async def write_file(sandbox: Executes, path: str, data: bytes, mode: int | None = None) -> None:
    """Replaces the content of a file; its parents are made."""
    path = checked(path)
    name = _word(path)
    script = f"mkdir -p -- {_word(posixpath.dirname(path))} && cat > {name}"
    result = await sandbox.exec(script, timeout=_TIMEOUT_S, stdin=data, cwd="/")
    if result.exit_code != 0:
        raise FileError(f"cannot write {path}: {_reason(result)}")
    if mode is not None:
        result = await sandbox.exec(f"chmod {mode:o} -- {name}", timeout=_TIMEOUT_S, cwd="/")
        if result.exit_code != 0:
            raise FileError(f"cannot set the mode of {path}: {_reason(result)}")


def _word(text: str) -> str:
    return quote(text).decode("utf-8", "surrogateescape")


def _reason(result: ExecResult) -> str:
    if result.timed_out:
        return f"no end after {_TIMEOUT_S:.0f} s"
    return result.text.strip()[-500:] or f"exit code {result.exit_code}"
