"""Runs *inside* a sandbox that may reach some hosts: a proxy on its loopback whose other end is outside.

Connections to 127.0.0.1:PORT are carried over this program's stdin and stdout, in frames: connection (4 bytes), length (4 bytes),
data; no data ends the connection. Who may be reached is decided outside (`egress.py`); if this program is killed, or somebody
speaks in its place, nothing more can be reached than the list says. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
import threading

_HEADER = struct.Struct("!II")


def main(port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port), backlog=64)
    output = threading.Lock()
    open_: dict[int, socket.socket] = {}

    def send(number: int, data: bytes) -> None:
        with output:
            view = memoryview(_HEADER.pack(number, len(data)) + data)
            while view:
                view = view[os.write(1, view) :]

    def carry(number: int, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := connection.recv(1 << 16):
                send(number, data)
        send(number, b"")

    def accept() -> None:
        number = 0
        while True:
            connection, _ = listener.accept()
            number += 1
            open_[number] = connection
            threading.Thread(target=carry, args=(number, connection), daemon=True).start()

    send(0, b"ready")
    threading.Thread(target=accept, daemon=True).start()
    source = sys.stdin.buffer
    while len(header := source.read(_HEADER.size)) == _HEADER.size:
        number, length = _HEADER.unpack(header)
        data = source.read(length)
        connection = open_.get(number)
        if connection is None:
            continue
        with contextlib.suppress(OSError):
            if data:
                connection.sendall(data)
            else:
                open_.pop(number)
                connection.shutdown(socket.SHUT_RDWR)
                connection.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
