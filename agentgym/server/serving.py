"""The application as each of several server processes builds it (`agentgym serve --workers N`).

What to serve comes through the environment, since the processes are started from an import path. They share the store: tokens,
runs, idempotency keys and the audit log are there. A rate counts in each process; metrics are summed over all of them
from files in `PROMETHEUS_MULTIPROC_DIR`.
"""

from __future__ import annotations

import json
import os
import tempfile

import uvicorn
from fastapi import FastAPI

from agentgym import logs
from agentgym.server.app import create_app
from agentgym.server.settings import ServerSettings

VARIABLE = "AGENTGYM_SERVE"


def application() -> FastAPI:
    """What the environment tells to serve."""
    logs.configure()
    told = json.loads(os.environ[VARIABLE])
    return create_app(told["store"], ServerSettings.model_validate(told["settings"]))


def serve(store: str, settings: ServerSettings, *, host: str, port: int, workers: int) -> None:
    """Serve until a signal ends it. Raises StoreError where there is nothing to serve."""
    options = {"host": host, "port": port, "log_level": "warning", "server_header": False}
    app = create_app(store, settings)  # in this process too: a wrong store is an error here, not in every worker
    if workers == 1:
        uvicorn.run(app, **options)
        return
    app.state.store.close()
    os.environ[VARIABLE] = json.dumps({"store": store, "settings": settings.model_dump(mode="json")})
    with tempfile.TemporaryDirectory(prefix="agentgym-metrics-") as directory:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory
        uvicorn.run(f"{__name__}:application", factory=True, workers=workers, **options)
