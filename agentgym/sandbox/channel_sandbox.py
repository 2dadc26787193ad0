"""A sandbox whose commands go through one `Channel`: what the backends share, beside what only they can know.

A backend makes `_channel` and says in `_check` when the sandbox is over, in `_close` how it ends, and in `_end_processes` how
all that runs in it does; trees in and out, and snapshots, are its own, since each engine has a quicker way than the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from agentgym.sandbox import files
from agentgym.sandbox.channel import Channel
from agentgym.sandbox.protocol import ExecResult, Image


class ChannelSandbox:
    """See `agentgym.sandbox.protocol.Sandbox`."""

    id: str
    image: Image
    _channel: Channel
    _closing: asyncio.Task[None] | None = None
    _rescuing: asyncio.Task[None] | None = None

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
        self._check()
        return await self._channel.exec(
            command, timeout=timeout, cwd=cwd, env=env, stateful=stateful, output_limit=output_limit, stdin=stdin
        )

    async def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes:
        return await files.read_file(self, path, max_bytes)

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        await files.write_file(self, path, data, mode)

    async def close(self) -> None:
        if self._closing is None:  # one task for all callers, and it goes on when a caller is cancelled
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def rescue(self) -> None:
        """Kills all that the user runs, once for all who ask at the same time."""
        if self._rescuing is None or self._rescuing.done():
            self._rescuing = asyncio.ensure_future(self._end_processes())
        await asyncio.shield(self._rescuing)

    def _check(self) -> None:
        """Raises SandboxGone where the sandbox is over."""
        raise NotImplementedError

    async def _close(self) -> None:
        """Ends the sandbox and removes what it leaves; runs once."""
        raise NotImplementedError

    async def _end_processes(self) -> None:
        """Kills all that the user runs; raises SandboxGone where that cannot be done."""
        raise NotImplementedError
