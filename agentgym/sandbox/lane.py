"""One shell inside a sandbox and the marks it answers with (see `shell.py` for the protocol's other half).

A lane runs one request at a time. Everything before the start mark is somebody else's late output and is dropped;
everything between start and end mark goes to a bounded collector, except a state report, which is cut out. Marks are
searched for by nonce only, so output may hold any bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from dataclasses import dataclass, field

from agentgym.sandbox import shell
from agentgym.sandbox.capture import HeadTail
from agentgym.sandbox.protocol import Stream, TransportError

_CHUNK = 1 << 18
_MARK_BYTES = 96  # more than any mark has
_MAX_STATE_BYTES = 4 << 20


class LaneClosed(Exception):
    """The shell of this lane has ended."""


@dataclass(slots=True)
class Outcome:
    """What is known of the lane's current or last request; filled in as marks arrive.

    cut: the connection failed and not the shell, so that nobody knows how the request ended.
    """

    call: int = 0
    pid: int | None = None
    status: int | None = None
    busy: bool = False
    oom_kills: int = 0
    full: bool = False
    state: bytes | None = None
    cut: TransportError | None = None
    output: HeadTail = field(default_factory=lambda: HeadTail(0))
    started: asyncio.Event = field(default_factory=asyncio.Event)


class Lane:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._nonce = secrets.token_hex(16)
        self._buffer = bytearray()
        self._drainer: asyncio.Task[None] | None = None
        self.closed = False
        self.outcome = Outcome()

    @property
    def usable(self) -> bool:
        return not self.closed and not self._stream.ended

    async def hello(self) -> None:
        """Sends the agent and waits until it is ready."""
        await self._send(shell.boot(self._nonce))
        while (await self._mark((self._nonce,), None))[1] != b"R":
            pass

    async def ask(self, request: bytes) -> None:
        """Sends a request that needs no start mark, and waits for its end."""
        self.outcome = Outcome()
        await self._send(request)
        while self.outcome.status is None:
            await self._mark((self._nonce,), None)

    def run(
        self, nonce: str, call: int, request: bytes, *, output_limit: int, state_nonce: str | None
    ) -> asyncio.Task[None]:
        """Runs a command to its end mark, or to the end of the shell; `outcome` says which, from now on."""
        self.outcome = Outcome(call=call, output=HeadTail(output_limit))
        return asyncio.create_task(self._run(nonce, self.outcome, request, state_nonce))

    async def _run(self, nonce: str, outcome: Outcome, data: bytes, state_nonce: str | None) -> None:
        # Written beside reading: a command that blocks on its output must not block us on its input.
        writer = asyncio.ensure_future(self._send(data))
        try:
            while outcome.pid is None:  # an end mark before the start is of a standby that died waiting
                mark = await self._mark((nonce, self._nonce), None)
                if mark[1] == b"S":
                    outcome.pid = int(mark[2])
                    outcome.started.set()
            outcome.status = None
            keys = (self._nonce,) if state_nonce is None else (self._nonce, state_nonce)
            while outcome.status is None:
                mark = await self._mark(keys, outcome.output)
                if mark[1] == b"T":
                    outcome.state = await self._state(mark[0], int(mark[2]))
        except LaneClosed:
            self.close()
            outcome.output.feed(bytes(self._buffer))
            self._buffer.clear()
        finally:
            if not writer.done():  # stdin that nobody took: what was sent of it would be read as requests
                writer.cancel()
                self.close()
            with contextlib.suppress(LaneClosed, asyncio.CancelledError):
                await writer

    def drain(self) -> None:
        """Reads and discards from now on, until the lane is used again."""
        self._drainer = asyncio.ensure_future(self._discard())

    async def still_busy(self) -> bool:
        """Asks a retired lane whether another process still holds its stdout; also true when it does not answer."""
        if self._drainer is not None:
            self._drainer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._drainer
            self._drainer = None
        if self.closed:
            return True
        try:
            await asyncio.wait_for(self.ask(shell.idle_request()), 2.0)
        except (LaneClosed, TimeoutError):
            self.close()
            return True
        if self.outcome.busy:
            self.drain()
        return self.outcome.busy

    def close(self) -> None:
        self.closed = True
        if self._drainer is not None:
            self._drainer.cancel()
        self._stream.close()

    # -- the byte stream --------------------------------------------------------------------------------------------

    async def _send(self, data: bytes) -> None:
        try:
            await self._stream.write(data)
        except OSError as error:
            raise LaneClosed(str(error)) from error

    async def _fill(self) -> None:
        try:
            data = await self._stream.read(_CHUNK)
        except TransportError as error:
            self.outcome.cut = error
            raise LaneClosed(str(error)) from error
        except OSError as error:
            raise LaneClosed(str(error)) from error
        if not data:
            raise LaneClosed("the shell ended")
        self._buffer += data

    async def _discard(self) -> None:
        with contextlib.suppress(LaneClosed):
            while True:
                await self._fill()
                self._buffer.clear()
        self.closed = True

    async def _mark(self, nonces: tuple[str, ...], sink: HeadTail | None) -> list[bytes]:
        """Reads up to and including the next mark of one of `nonces`; what comes before it goes to `sink`.

        Returns the mark's fields: nonce, letter, values. An end mark is also entered in `outcome`.
        """
        keys = [b"\0" + nonce.encode() + b" " for nonce in nonces]
        while True:
            at = min((i for i in map(self._buffer.find, keys) if i >= 0), default=-1)
            end = self._buffer.find(b"\n", at) if at >= 0 else -1
            keep = at if at >= 0 else max(0, len(self._buffer) - _MARK_BYTES)
            if sink is not None:
                sink.feed(bytes(self._buffer[:keep]))
            if end >= 0:
                fields = bytes(self._buffer[at + 1 : end]).split(b" ")
                del self._buffer[: end + 1]
                if fields[1] == b"E":
                    self.outcome.status = int(fields[2])
                    self.outcome.busy = fields[3] == b"1"
                    self.outcome.oom_kills = int(fields[4])
                    self.outcome.full = fields[5] == b"1"
                return fields
            del self._buffer[:keep]
            await self._fill()

    async def _state(self, nonce: bytes, size: int) -> bytes | None:
        """Cuts a state report out of the stream; None where another process wrote into it."""
        trailer = b"\0" + nonce + b" U\n"
        if size > _MAX_STATE_BYTES:
            return None
        while len(self._buffer) < size + len(trailer):
            await self._fill()
        if not self._buffer.startswith(trailer, size):
            return None
        state = bytes(self._buffer[:size])
        del self._buffer[: size + len(trailer)]
        return state
