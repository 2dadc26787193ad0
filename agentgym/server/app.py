"""The application: one store, its routes, and what surrounds them."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import Depends, FastAPI
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.openapi.utils import get_openapi

import agentgym
from agentgym.server import api, pages, problem
from agentgym.server.access.guard import Guard
from agentgym.server.access.rate import Buckets
from agentgym.server.access.scopes import needs_read
from agentgym.server.access.tokens import Tokens
from agentgym.server.api.system import metrics
from agentgym.server.measures import Measures
from agentgym.server.runs.launch import Launcher
from agentgym.server.settings import ServerSettings
from agentgym.store import Store, TrajectoryFilter
from agentgym.store.transfer import Transcribe
from agentgym.tasks import Registry

Words = Callable[[Store, Registry, TrajectoryFilter, str | None], Transcribe]
"""Makes words of what policies said, for exports of what a filter selects: with one model's tokenizer, or each with its own."""


def create_app(
    store_url: str,
    settings: ServerSettings | None = None,
    *,
    words: Words | None = None,
    shared: Path | None = None,
) -> FastAPI:
    """The application over the store at `store_url` (SQLite path or SQLAlchemy URL).

    words: needs tokenizers and the harness, so it comes from above; without it, exports say what the record itself says in words.
    shared: a directory of the processes that answer at one address, where they count together what the store does not hold.

    Opens the store at once, so that a wrong URL or a newer schema is an error here (StoreError) and not at the first
    request; closes it when the server stops. Runs that it launched go on.
    """
    settings = settings or ServerSettings()
    store, registry = Store.open(store_url), Registry(store_url)
    measures = Measures(store.engine)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        store.close()
        registry.close()

    app = FastAPI(
        title="agentgym",
        version=agentgym.__version__,
        description="Tasks, trajectories and runs. Errors are problem+json; lists page by cursor; a POST may be repeated "
        "safely under an `Idempotency-Key`.",
        lifespan=lifespan,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.store, app.state.registry, app.state.settings = store, registry, settings
    app.state.words = words
    app.state.ending = threading.Event()  # set once the server is to end: streams that would outlast it end then
    app.state.tokens, app.state.measures = Tokens(store.engine), measures
    app.state.launcher = Launcher(store.engine, store_url, settings)
    app.add_middleware(GZipMiddleware, minimum_size=2048, compresslevel=1)
    buckets = Buckets(None if shared is None else shared / "rate")
    app.add_middleware(Guard, settings=settings, measures=measures, engine=store.engine, buckets=buckets)
    problem.install(app)
    app.include_router(api.router)
    app.add_api_route("/metrics", metrics, include_in_schema=False, dependencies=[Depends(needs_read)])
    app.include_router(pages.router)
    app.openapi = lambda: _document(app)
    return app


def _document(app: FastAPI) -> dict:
    """OpenAPI, with the one error document that every route shares."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = problem.Problem.model_json_schema()
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        app.openapi_schema = document
    return app.openapi_schema
