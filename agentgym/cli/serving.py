"""The processes of `agentgym serve`: one that answers, or several behind one socket with a parent that starts them again.

What several are to serve comes through the environment, since they are started from an import path. They share the store: tokens,
runs, idempotency keys and the audit log are there. What no store holds they share in a directory: the rate of each client, and
the numbers that `/metrics` sums over all of them (`PROMETHEUS_MULTIPROC_DIR`).
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE
from uvicorn.server import HANDLED_SIGNALS
from uvicorn.supervisors import Multiprocess

from agentgym import logs
from agentgym.cli.words import words
from agentgym.errors import AgentGymError, InputError
from agentgym.server import ServerSettings, create_app

VARIABLE = "AGENTGYM_SERVE"
_OPTIONS: dict[str, Any] = {
    "log_level": "warning",
    "server_header": False,
    "timeout_graceful_shutdown": 30,
    # A process that answers nothing for so long is replaced; one that starts on a busy machine must not be.
    "timeout_worker_healthcheck": 30,
}


def application() -> FastAPI:
    """What the environment tells one of several processes to serve."""
    logs.configure()
    _end_with_the_parent()
    told = json.loads(os.environ.pop(VARIABLE))  # not for the runs that are launched: it may hold a database's password
    settings = ServerSettings.model_validate(told["settings"])
    return _hearing(create_app(told["store"], settings, words=words, shared=Path(told["shared"])))


def bind(host: str, port: int) -> socket.socket:
    """The socket to serve on. Raises InputError for an address that cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise InputError(
            f"cannot listen on {host} port {port}: {error.strerror or error}", hint="name another with --port"
        ) from error
    return bound


def serve(store: str, settings: ServerSettings, listening: socket.socket, *, workers: int) -> None:
    """Serve until a signal ends it. Raises StoreError where there is nothing to serve."""
    app = create_app(store, settings, words=words)  # whatever answers: a wrong store is an error here, and once
    if workers == 1:
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(uvicorn.Config(lambda: _hearing(app), factory=True, **_OPTIONS)).run(sockets=[listening])
        return
    app.state.store.close()
    app.state.registry.close()
    with tempfile.TemporaryDirectory(prefix="agentgym-serve-") as shared:
        told = {"store": store, "settings": settings.model_dump(mode="json"), "shared": shared}
        os.environ |= {VARIABLE: json.dumps(told), "PROMETHEUS_MULTIPROC_DIR": shared}
        config = uvicorn.Config(f"{__name__}:application", factory=True, workers=workers, **_OPTIONS)
        supervisor = Multiprocess(config, sockets=[listening])
        supervisor.run()
        if any(one.exitcode == STARTUP_FAILURE for one in supervisor.processes):
            raise AgentGymError("a process of the server failed to start; what it said is above")


def _hearing(app: FastAPI) -> FastAPI:
    """The application, told of a signal that ends its server before the server waits for its streams to end."""
    for number in HANDLED_SIGNALS:
        servers = signal.getsignal(number)

        def hear(number: int, frame: FrameType | None, servers: Any = servers) -> None:
            app.state.ending.set()
            servers(number, frame)

        signal.signal(number, hear)
    return app


def _end_with_the_parent() -> None:
    """A parent that is killed cannot tell its processes to end, and they would keep its address."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        assert parent is not None
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    if parent is not None:
        threading.Thread(target=watch, daemon=True).start()
