"""Servers of our own as tests start them: `agentgym serve`, whose log says what went wrong, or an application in a thread."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn
from fastapi import FastAPI

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Serving:
    """url: without a slash at its end. process: the one that was started. log: what it says on stderr."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def workers(self) -> list[int]:
        """The processes that answer, where there are several."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def environment(**more: str) -> dict[str, str]:
    """Of a command that is to find this checkout."""
    return os.environ | {"PYTHONPATH": str(ROOT)} | more


@contextmanager
def serving(store: Path, *options: str, command: list[str] | None = None, patience: float = 240.0) -> Iterator[Serving]:
    """A server over `store`, ended at the end. command: instead of `python -m agentgym serve`."""
    log = store.parent / f"serve-{time.monotonic_ns()}.log"
    words = command or [sys.executable, "-m", "agentgym", "serve", "--port", "0", "--store", str(store)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*words, *options], stdout=output, stderr=output, cwd=store.parent, env=environment(COLUMNS="200")
        )
    try:
        yield Serving(_address(process, log, time.monotonic() + patience), process, log)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(120)


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """The address of an application that a thread of this process serves."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def _address(process: subprocess.Popen[bytes], log: Path, deadline: float) -> str:
    """Where it says that it listens, once it answers there."""
    while True:
        said = log.read_text(errors="replace")
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        found = re.search(r"http://\S+?(?=/ )", said)
        if found:
            try:
                httpx.get(f"{found[0]}/v1/health", trust_env=False)
                return found[0]
            except httpx.TransportError:
                pass
        time.sleep(0.1)
