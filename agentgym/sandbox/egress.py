"""A few hosts and no others: network for a sandbox that has none, through this process.

The sandbox keeps its network namespace with nothing but loopback. On that listens a small relay (`relay.py`, needs
`python3` in the image), whose other end is a stream to this process, like a command's; here the proxy's part is played: a request
names a host, and what the list does not have is refused with 403. So it holds in every backend alike, no address of the
host is reachable, and the relay is trusted with nothing: it lives among the sandbox's own processes, which may replace it.

Programs are told by the usual variables (`http_proxy`, `https_proxy`); what does not heed them reaches nothing. A name on
the list stands for itself, `*.example.org` for all below it. A listed name that resolves to an address which is not
public (loopback, private, link-local: metadata services) is refused too.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
import struct
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentgym.sandbox import relay
from agentgym.sandbox.protocol import Sandbox, StartError, Stream, TransportError
from agentgym.sandbox.shell import quote

logger = logging.getLogger(__name__)

PORT = 3128
_HEADER = struct.Struct("!II")
_START_S = 20.0
_CONNECT_S = 20.0
_MOST_HEAD = 1 << 16
_CHUNK = 1 << 16


class Refused(Exception):
    """The list does not have the host; the message is for whoever asked."""


class Egress:
    """The outer end of one sandbox's relay."""

    def __init__(self, stream: Stream, hosts: Sequence[str], *, public_only: bool = True) -> None:
        self._stream = stream
        self._hosts = [host.lower() for host in hosts]
        self._public_only = public_only
        self._incoming: dict[int, asyncio.Queue[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._buffer = bytearray()
        self._writing = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None
        self.environment = {"no_proxy": "127.0.0.1,localhost", "NO_PROXY": "127.0.0.1,localhost"}
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            self.environment[name] = f"http://127.0.0.1:{PORT}"

    @classmethod
    async def open(cls, sandbox: Sandbox, hosts: Sequence[str], *, public_only: bool = True) -> Egress:
        """Starts the relay in `sandbox`; StartError where its image has no python3."""
        source = await asyncio.to_thread(Path(relay.__file__).read_text)
        stream = await sandbox.open_stream()
        egress = cls(stream, hosts, public_only=public_only)
        await stream.write(b"exec 2>/dev/null; exec python3 -u -c %s %d\n" % (quote(source), PORT))
        try:
            async with asyncio.timeout(_START_S):
                number, data = await egress._frame()
        except (EOFError, TimeoutError, OSError, TransportError) as error:
            stream.close()
            raise StartError(
                f"sandbox {sandbox.id[:24]} does not run the relay that a list of allowed hosts needs",
                hint="python3 must be in its image",
                retry_safe=False,
            ) from error
        assert (number, data) == (0, b"ready")
        egress._reading = egress._spawn(egress._serve())
        return egress

    @property
    def ended(self) -> bool:
        """The relay is gone: somebody inside has killed it."""
        return self._reading is None or self._reading.done()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._stream.close()

    # -- frames -----------------------------------------------------------------------------------------------------

    async def _frame(self) -> tuple[int, bytes]:
        await self._fill(_HEADER.size)
        number, length = _HEADER.unpack_from(self._buffer)
        if length > _CHUNK * 4:
            raise EOFError(f"a frame of {length} bytes is none of the relay's")
        await self._fill(_HEADER.size + length)
        data = bytes(self._buffer[_HEADER.size : _HEADER.size + length])
        del self._buffer[: _HEADER.size + length]
        return number, data

    async def _fill(self, size: int) -> None:
        while len(self._buffer) < size:
            data = await self._stream.read(_CHUNK)
            if not data:
                raise EOFError("the relay ended")
            self._buffer += data

    async def _send(self, number: int, data: bytes) -> None:
        async with self._writing:
            await self._stream.write(_HEADER.pack(number, len(data)) + data)

    async def _serve(self) -> None:
        with contextlib.suppress(EOFError, OSError, TransportError):
            while True:
                number, data = await self._frame()
                if number not in self._incoming:
                    if not data:
                        continue
                    self._incoming[number] = asyncio.Queue()
                    self._spawn(self._connection(number))
                self._incoming[number].put_nowait(data)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- one connection ---------------------------------------------------------------------------------------------

    async def _connection(self, number: int) -> None:
        incoming = self._incoming[number]
        try:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = await incoming.get()
                head += piece
                if not piece or len(head) > _MOST_HEAD:
                    return
            try:
                reader, writer, first = await self._reach(head)
            except Refused as refusal:
                body = f"agentgym: {refusal}\n".encode()
                answer = b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
                await self._send(number, answer + body)
                return
            if first:
                writer.write(first)
            else:
                await self._send(number, b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = asyncio.create_task(self._carry_back(number, reader))
            try:
                while piece := await incoming.get():
                    writer.write(piece)
                    await writer.drain()
                if first:  # a plain request: its answer may still be on the way
                    await back
            except OSError as error:
                logger.debug("egress: %s", error)
            finally:
                back.cancel()
                writer.close()
        finally:
            self._incoming.pop(number, None)
            with contextlib.suppress(OSError):
                await self._send(number, b"")

    async def _carry_back(self, number: int, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._send(number, data)
            await self._send(number, b"")

    async def _reach(self, head: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """Connects to whom the request names. The bytes to send there first: none for CONNECT."""
        line, _, rest = head.partition(b"\r\n")
        try:
            method, target, version = line.decode("ascii").split(" ")
            url = urlsplit(f"//{target}" if method == "CONNECT" else target)
            host, port = url.hostname or "", url.port or (443 if method == "CONNECT" else 80)
        except ValueError:
            raise Refused("this is no request to a proxy") from None
        if not self._listed(host):
            raise Refused(f"{host} is not among the hosts this sandbox may reach: {', '.join(self._hosts)}")
        address = await self._resolve(host, port)
        try:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await asyncio.open_connection(address, port)
        except (OSError, TimeoutError) as error:
            raise Refused(f"{host} does not answer: {error}") from error
        if method == "CONNECT":
            return reader, writer, b""
        path = f"{url.path or '/'}{'?' + url.query if url.query else ''}"
        # One request per connection: another host on the same one would not be looked at.
        lines = [one for one in rest.split(b"\r\n") if not one.lower().startswith((b"connection:", b"proxy-"))]
        first = f"{method} {path} {version}\r\nConnection: close\r\n".encode() + b"\r\n".join(lines)
        return reader, writer, first

    def _listed(self, host: str) -> bool:
        return any(host == entry or (entry.startswith("*.") and host.endswith(entry[1:])) for entry in self._hosts)

    async def _resolve(self, host: str, port: int) -> str:
        """The address that is connected to is the one that was judged."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise Refused(f"{host} has no address: {error}") from error
        for entry in found:
            address = str(entry[4][0])
            if not self._public_only or ipaddress.ip_address(address.split("%")[0]).is_global:
                return address
        raise Refused(f"{host} is an address of this machine or its network, which no sandbox may reach")
