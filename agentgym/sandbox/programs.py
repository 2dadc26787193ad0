"""Whole programs in a jail: start one, feed its stdin, gather its output, wait for its end.

For image builds and file transfer. Commands of an episode go through the channel instead, which keeps one shell open.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agentgym.sandbox.jail import JailProcess
from agentgym.sandbox.pipes import PipeStream, feed, open_reader

_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Ended:
    """status: exit code, 128+n for signal n. output: stdout (and stderr, unless it was kept apart). errors: stderr."""

    status: int
    output: bytes
    errors: bytes = b""


async def open_program(
    jail: JailProcess, argv: Sequence[str], *, env: Mapping[str, str], cwd: str
) -> tuple[PipeStream, asyncio.Future[int]]:
    """Start a program whose stdin and stdout stay open (stderr goes to stdout)."""
    stdin_read, stdin_write = os.pipe2(os.O_CLOEXEC)
    stdout_read, stdout_write = os.pipe2(os.O_CLOEXEC)
    try:
        ended = await jail.spawn(argv, env=env, cwd=cwd, descriptors=(stdin_read, stdout_write, stdout_write))
    except BaseException:
        os.close(stdin_write)
        os.close(stdout_read)
        raise
    finally:
        os.close(stdin_read)
        os.close(stdout_write)
    return await PipeStream.over(stdout_read, stdin_write), ended


async def run_program(
    jail: JailProcess,
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str = "/",
    stdin: bytes | int = b"",
    sink: Callable[[bytes], object] | None = None,
    join_errors: bool = False,
) -> Ended:
    """Run to the end. stdin: bytes, or an open file's descriptor. sink: takes stdout instead of gathering it."""
    stdout_read, stdout_write = os.pipe2(os.O_CLOEXEC)
    stderr_read, stderr_write = os.pipe2(os.O_CLOEXEC)
    stdin_read, stdin_write = os.pipe2(os.O_CLOEXEC) if isinstance(stdin, bytes) else (stdin, -1)
    errors = stdout_write if join_errors else stderr_write
    try:
        ended = await jail.spawn(argv, env=env, cwd=cwd, descriptors=(stdin_read, stdout_write, errors))
    except BaseException:
        for descriptor in (stdout_read, stderr_read, *((stdin_write,) if stdin_write >= 0 else ())):
            os.close(descriptor)
        raise
    finally:
        for descriptor in (stdout_write, stderr_write, *((stdin_read,) if stdin_write >= 0 else ())):
            os.close(descriptor)
    gathered = bytearray()
    feeding = asyncio.create_task(feed(stdin_write, stdin)) if isinstance(stdin, bytes) else None
    drains = [
        asyncio.create_task(_drain(stdout_read, sink or gathered.extend)),
        asyncio.create_task(_drain(stderr_read, (complaints := bytearray()).extend)),
    ]
    try:
        status = await ended
        _, late = await asyncio.wait(drains, timeout=2.0)  # a child left behind may hold the pipe: do not wait for it
        for task in drains:
            if task not in late:
                task.result()
    finally:
        for task in [*drains, *([feeding] if feeding else [])]:
            task.cancel()
    return Ended(status, bytes(gathered), bytes(complaints))


async def _drain(descriptor: int, sink: Callable[[bytes], object]) -> None:
    reader, transport = await open_reader(descriptor)
    try:
        while data := await reader.read(_CHUNK):
            sink(data)
    finally:
        transport.close()
