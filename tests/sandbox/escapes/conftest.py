"""What the ways out look for: a file, a process and listeners of the host, each of which knows a word that no sandbox can."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

WAYS = Path(__file__).with_name("ways")


@dataclass(frozen=True)
class Host:
    """outside: a file of the host. document: what the ways are told, as JSON."""

    word: str
    outside: Path
    document: str


def serve(listener: socket.socket, word: bytes) -> Callable[[], None]:
    """Says the word to whoever comes; returns what ends it."""

    def run() -> None:
        with suppress(OSError):
            while True:
                if listener.type == socket.SOCK_DGRAM:
                    _, peer = listener.recvfrom(500)
                    if peer is None:  # shut down
                        return
                    listener.sendto(word, peer)
                else:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        connection.send(word)

    threading.Thread(target=run, daemon=True).start()

    def end() -> None:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()

    return end


def addresses() -> list[str]:
    """Where the host can be reached from a bridge of the engine's."""
    shown = subprocess.run(["ip", "-4", "-json", "address"], capture_output=True, text=True, check=True).stdout
    found = [info["local"] for link in json.loads(shown) for info in link["addr_info"]]
    return [address for address in found if not address.startswith("127.")]


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    word = secrets.token_hex(16)
    outside = tmp_path_factory.mktemp("outside") / "secret"
    outside.write_text(word)
    with ExitStack() as stack:
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)", word])
        stack.callback(sleeper.wait)
        stack.callback(sleeper.kill)
        listeners = [
            socket.create_server(("127.0.0.1", 0)),
            socket.create_server(("0.0.0.0", 0)),
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
            socket.socket(socket.AF_UNIX),
        ]
        listeners[2].bind(("0.0.0.0", 0))
        listeners[3].bind(f"\0agentgym-{word}")
        listeners[3].listen()
        for listener in listeners:
            stack.callback(serve(listener, word.encode()))
        disk = os.stat("/").st_dev
        document = {
            "word": word,
            "file": str(outside),
            "disk": [os.major(disk), os.minor(disk)],
            "loopback": listeners[0].getsockname()[1],
            "tcp": [[address, listeners[1].getsockname()[1]] for address in addresses()],
            "udp": [[address, listeners[2].getsockname()[1]] for address in addresses()],
            "abstract": f"agentgym-{word}",
        }
        yield Host(word, outside, json.dumps(document))
