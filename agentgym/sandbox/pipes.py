"""Pipes between the event loop and a program in a jail."""

from __future__ import annotations

import asyncio
import contextlib
import os


class PipeStream:
    """The stdin and stdout of one program, as the byte stream that a channel speaks over."""

    def __init__(self, reader: asyncio.StreamReader, read: asyncio.BaseTransport, write: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._read = read
        self._write = write
        self._closed = False

    @classmethod
    async def over(cls, output: int, input_: int) -> PipeStream:
        """Take over two descriptors: the reading end of its stdout, the writing end of its stdin."""
        reader, read = await open_reader(output)
        return cls(reader, read, await open_writer(input_))

    @property
    def ended(self) -> bool:
        return self._closed or self._reader.at_eof()

    async def read(self, limit: int) -> bytes:
        return await self._reader.read(limit)

    async def write(self, data: bytes) -> None:
        if self._closed or self._write.is_closing():
            raise BrokenPipeError("the program's stdin is closed")
        self._write.write(data)
        await self._write.drain()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if not self._write.transport.is_closing():  # it closes itself when the program goes away
                self._write.transport.abort()
            self._read.close()


async def open_reader(descriptor: int) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    """A stream over the reading end of a pipe; closes the descriptor in the end."""
    reader = asyncio.StreamReader(limit=1 << 20)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    return reader, transport


async def open_writer(descriptor: int) -> asyncio.StreamWriter:
    """A stream over the writing end of a pipe; closes the descriptor in the end."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop=loop), os.fdopen(descriptor, "wb", buffering=0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def feed(descriptor: int, data: bytes) -> None:
    """Write all of `data` and close; a reader that went away early is no error."""
    writer = await open_writer(descriptor)
    with contextlib.suppress(ConnectionError):
        writer.write(data)
        await writer.drain()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
