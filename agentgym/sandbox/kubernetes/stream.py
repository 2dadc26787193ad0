"""A process in a pod and its three streams, over one websocket that speaks v4.channel.k8s.io.

Every message is one byte, the channel, and data: 0 stdin, 1 stdout, 2 stderr, 3 the end, as JSON. stdin cannot be closed on its
own, so whoever sends much says how much first (`head -c`). A connection that ends without a message on channel 3 was
cut: whether the process lives is unknown, and reading says so with TransportError instead of an end of file.

Messages are taken as they come, up to a bound, so that it is known of an idle shell when it has ended or was cut off.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque

import aiohttp

from agentgym.sandbox.protocol import TransportError

_STDIN, _STDOUT, _STDERR, _END = range(4)
_MESSAGE = 1 << 17
_MAX_ERRORS = 1 << 16
_MAX_WAITING = 1 << 20


class PodStream:
    """See `lane.Stream`. what: for error messages. errors: the last of what came on stderr. status: exit code, once ended."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, what: str) -> None:
        self._socket = socket
        self._what = what
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._changed = asyncio.Event()
        self._cut: TransportError | None = None
        self._taker = asyncio.create_task(self._take_all())
        self._closing: asyncio.Task[None] | None = None
        self.errors = bytearray()
        self.status: int | None = None

    @property
    def ended(self) -> bool:
        return self._closing is not None or self.status is not None or self._cut is not None

    async def read(self, limit: int) -> bytes:
        while not self._waiting:
            if self._closing is not None or self.status is not None:
                return b""
            if self._cut is not None:
                raise self._cut
            self._changed.clear()
            await self._changed.wait()
        data = self._waiting.popleft()
        if len(data) > limit:
            self._waiting.appendleft(data[limit:])
            data = data[:limit]
        self._size -= len(data)
        self._changed.set()
        return data

    async def write(self, data: bytes) -> None:
        if self.ended:
            raise BrokenPipeError(f"{self._what}: it has ended")
        view = memoryview(data)
        try:
            for start in range(0, len(view), _MESSAGE):
                await self._socket.send_bytes(b"\0" + view[start : start + _MESSAGE])
        except (aiohttp.ClientError, ConnectionError, RuntimeError) as error:
            raise BrokenPipeError(f"{self._what}: {error!r}") from error

    def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
            self._changed.set()

    async def closed(self) -> None:
        """Until the connection is really gone, after `close`."""
        if self._closing is not None:
            await asyncio.wait({self._closing})

    async def _close(self) -> None:
        self._taker.cancel()
        await asyncio.wait({self._taker})
        await self._socket.close()

    async def _take_all(self) -> None:
        try:
            while self.status is None:
                while self._size > _MAX_WAITING:
                    self._changed.clear()
                    await self._changed.wait()
                message = await self._socket.receive()
                if message.type is not aiohttp.WSMsgType.BINARY:
                    why = f"{message.type.name.lower()} {message.extra or ''}".strip()
                    raise TransportError(f"{self._what}: the connection was cut ({why})")
                self._take(message.data[0], message.data[1:])
        except TransportError as error:
            self._cut = error
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            self._cut = TransportError(f"{self._what}: the connection was cut: {error!r}")
        finally:
            self._changed.set()

    def _take(self, channel: int, data: bytes) -> None:
        if channel == _STDOUT and data:
            self._waiting.append(data)
            self._size += len(data)
        elif channel == _STDERR:
            self.errors += data
            del self.errors[:-_MAX_ERRORS]
        elif channel == _END:
            self.status = _exit_code(data, self._what)
        self._changed.set()


def _exit_code(data: bytes, what: str) -> int:
    answer = json.loads(data)
    if answer.get("status") == "Success":
        return 0
    for cause in (answer.get("details") or {}).get("causes") or []:
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise TransportError(f"{what}: the node lost it: {answer.get('message')}")
