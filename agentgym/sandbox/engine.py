"""The Docker Engine API as this room needs it: JSON requests, tar bodies, and one hijacked duplex stream.

Spoken directly over the engine's socket with asyncio, so that hundreds of open sandboxes cost no threads. Paths carry
no API version: each engine answers in its own, and the fields used here have been stable since 1.40 (Docker 19.03).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Mapping
from http.client import HTTPConnection, HTTPException
from typing import IO, Any
from urllib.parse import urlencode

import httpx

from agentgym.sandbox.protocol import BackendUnavailable, FileError, SandboxError, SandboxGone, TransportError

_TIMEOUT = httpx.Timeout(120.0, connect=10.0)
_BUFFER = 1 << 20


class EngineError(SandboxError):
    """The engine refused a request. status: HTTP status; 404 unknown object, 409 conflict, 5xx the engine's own trouble."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"docker engine: {message} (status {status})")
        self.status = status


def find_address() -> str:
    """DOCKER_HOST, or the first well-known socket that exists; "unix://…" or "tcp://host:port"."""
    if given := os.environ.get("DOCKER_HOST"):
        if not given.startswith(("unix://", "tcp://")):
            raise BackendUnavailable(
                f"DOCKER_HOST={given!r} is neither unix:// nor tcp://", hint="point it at the engine's socket"
            )
        return given
    candidates = ["/var/run/docker.sock", f"/run/user/{os.getuid()}/docker.sock"]
    for path in candidates:
        if os.path.exists(path):
            return f"unix://{path}"
    raise BackendUnavailable(
        f"no Docker Engine socket at {' or '.join(candidates)}",
        hint="install and start one (Debian: apt-get install docker.io), set DOCKER_HOST, or use the local backend",
    )


class Engine:
    def __init__(self, address: str | None = None) -> None:
        self.address = address or find_address()
        scheme, _, place = self.address.partition("://")
        self._socket = place if scheme == "unix" else None
        self._base = "http://docker" if scheme == "unix" else f"http://{place}"
        self._limits = httpx.Limits(max_connections=64, max_keepalive_connections=16)
        self._client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=self._socket, limits=self._limits, verify=False),
            base_url=self._base,
            timeout=_TIMEOUT,
        )

    async def info(self) -> dict[str, Any]:
        """The engine's self-description; raises BackendUnavailable where none answers."""
        try:
            return await self.json("GET", "/info")
        except (TransportError, EngineError) as error:
            raise BackendUnavailable(
                f"the Docker Engine at {self.address} does not answer: {error}",
                hint="start it (`service docker start`), or join the `docker` group if permission was denied",
            ) from error

    async def json(self, method: str, path: str, body: Any = None, params: Mapping[str, Any] | None = None) -> Any:
        response = await self._send(method, path, json=body, params=params)
        return response.json() if response.content else None

    async def has_path(self, container: str, path: str) -> bool:
        try:
            await self._send("HEAD", f"/containers/{container}/archive", params={"path": path})
        except EngineError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def put_archive(self, container: str, path: str, tar: IO[bytes]) -> None:
        """Unpacks a tar below `path` of a container."""

        async def pieces() -> AsyncIterator[bytes]:
            while piece := tar.read(_BUFFER):
                yield piece

        try:
            await self._send(
                "PUT",
                f"/containers/{container}/archive",
                content=pieces(),
                params={"path": path, "noOverwriteDirNonDir": "true"},
                headers={"content-type": "application/x-tar"},
                timeout=None,
            )
        except EngineError as error:
            raise _file_error(container, path, error) from error

    async def get_archive(self, container: str, path: str, into: IO[bytes]) -> None:
        """Writes the tar of one path of a container to `into`."""
        url = f"/containers/{container}/archive"
        try:
            async with self._client.stream("GET", url, params={"path": path}, timeout=None) as response:
                if response.status_code >= 400:
                    await response.aread()
                    raise _file_error(container, path, _refused(response))
                async for piece in response.aiter_bytes(_BUFFER):
                    into.write(piece)
        except httpx.TransportError as error:
            raise TransportError(f"docker engine at {self.address}: {error!r}") from error

    async def _send(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        try:
            response = await self._client.request(method, path, **kwargs)
        except httpx.TransportError as error:
            raise TransportError(f"docker engine at {self.address}: {error!r}") from error
        if response.status_code >= 400:
            raise _refused(response)
        return response

    def remove_now(self, path: str, params: Mapping[str, Any]) -> None:
        """A blocking DELETE, for a thread: it completes also when the task or loop that asked is being torn down."""
        connection = (
            _UnixConnection(self._socket)
            if self._socket
            else HTTPConnection(self._base.removeprefix("http://"), timeout=_TIMEOUT.read)
        )
        try:
            connection.request("DELETE", f"{path}?{urlencode(params)}")
            answer = connection.getresponse()
            status, body = answer.status, answer.read()
        except (OSError, HTTPException) as error:
            raise TransportError(f"docker engine at {self.address}: {error!r}") from error
        finally:
            connection.close()
        if status >= 400:
            raise EngineError(status, _message(body))

    async def attach_exec(self, container: str, argv: list[str], *, user: str = "") -> ExecStream:
        """Starts `argv` in a running container with stdin and stdout attached. user: "" for the container's own."""
        try:
            created = await self.json(
                "POST",
                f"/containers/{container}/exec",
                {
                    "Cmd": argv,
                    "AttachStdin": True,
                    "AttachStdout": True,
                    "AttachStderr": False,
                    "WorkingDir": "/",
                    "User": user,
                },
            )
        except EngineError as error:
            if error.status in (404, 409):  # removed; stopped or being removed
                raise SandboxGone(f"the container {container[:12]} is no longer running") from error
            raise TransportError(str(error)) from error
        body = json.dumps({"Detach": False, "Tty": False}).encode()
        head = (
            f"POST /exec/{created['Id']}/start HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\n"
            f"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            reader, writer = await self._connect()
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
        except (OSError, EOFError) as error:
            raise TransportError(f"docker engine at {self.address}: {error!r}") from error
        status = int(answer.split(b" ", 2)[1])
        if status not in (101, 200):
            detail = await reader.read(2000)
            writer.close()
            raise TransportError(f"docker engine: exec refused with status {status}: {detail.decode(errors='replace')}")
        return ExecStream(reader, writer)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._socket is not None:
            return await asyncio.open_unix_connection(self._socket, limit=_BUFFER)
        url = httpx.URL(self._base)
        return await asyncio.open_connection(url.host, url.port or 2375, limit=_BUFFER)

    async def close(self) -> None:
        await self._client.aclose()


class _UnixConnection(HTTPConnection):
    """The standard library's client over a unix socket: unlike httpx's, it costs no TLS set-up to make one."""

    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=_TIMEOUT.read)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class ExecStream:
    """The duplex stream of an attached exec: raw in, framed out (1 byte stream, 3 zero bytes, 4 bytes length)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._left_in_frame = 0

    @property
    def ended(self) -> bool:
        return self._reader.at_eof()

    async def read(self, limit: int) -> bytes:
        while self._left_in_frame == 0:
            try:
                header = await self._reader.readexactly(8)
            except asyncio.IncompleteReadError:
                return b""
            self._left_in_frame = int.from_bytes(header[4:8], "big")
        data = await self._reader.read(min(limit, self._left_in_frame))
        self._left_in_frame -= len(data)
        return data

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


def _file_error(container: str, path: str, error: EngineError) -> SandboxError:
    if error.status == 404 and "No such container" in str(error):
        return SandboxGone(f"the container {container[:12]} is gone")
    return FileError(f"{path}: {error}")


def _refused(response: httpx.Response) -> EngineError:
    return EngineError(response.status_code, _message(response.content))


def _message(body: bytes) -> str:
    try:
        return json.loads(body)["message"]
    except (ValueError, KeyError, TypeError):
        return body[:500].decode(errors="replace")
