"""Helper programs on the host (debootstrap, tar, cp): run, logged line by line, never left behind.

Each runs in a session of its own and dies with us: `setpriv --pdeathsig` covers SIGKILL of this process, the kill of
the process group covers cancellation and time-outs.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agentgym.sandbox.protocol import ImageError

Log = Callable[[str], None]
"""Receives one line of progress, without its newline."""

TAIL_LINES = 40


def with_death_signal(argv: Sequence[str]) -> list[str]:
    """The same command, killed by the kernel when the thread that starts it dies."""
    return ["setpriv", "--pdeathsig", "KILL", "--", *argv]


async def run_logged(
    argv: Sequence[str],
    *,
    what: str,
    log: Log,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = 1800.0,
) -> None:
    """Run `argv`, its output to `log`; ImageError with the output's tail when it fails or outlives `timeout_s`."""
    lines = LineLog(log)
    try:
        process = await asyncio.create_subprocess_exec(
            *with_death_signal(argv),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise ImageError(f"{what}: cannot run {argv[0]!r} ({error})", hint="apt-get install util-linux") from error
    assert process.stdout is not None
    try:
        async with asyncio.timeout(timeout_s):
            while chunk := await process.stdout.read(65536):
                lines.feed(chunk)
            code = await process.wait()
    except TimeoutError:
        raise ImageError(f"{what}: gave up after {timeout_s:.0f} s\n{lines.tail}") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if code != 0:
        raise ImageError(f"{what}: exit code {code}\n{lines.tail}")


class LineLog:
    """Cuts a byte stream into lines for `log`, and remembers the last of them for an error message."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._rest = b""
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    def feed(self, data: bytes) -> None:
        *complete, self._rest = (self._rest + data).split(b"\n")
        for line in complete:
            self.add(line.decode("utf-8", errors="replace"))

    def add(self, line: str) -> None:
        if line := line.rsplit("\r", 1)[-1].rstrip():
            self._tail.append(line)
            self._log(line)

    @property
    def tail(self) -> str:
        """The last lines, marked so that they read as a quotation inside an error message."""
        if self._rest:
            self.feed(b"\n")
        return "\n".join(f"  | {line}" for line in self._tail) or "  | (no output)"
