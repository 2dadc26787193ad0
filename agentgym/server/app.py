"""The application: one store, its routes, and how errors become answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import JSONResponse

import agentgym
from agentgym.errors import AgentGymError, InputError
from agentgym.server import api, pages
from agentgym.store import NotFoundError, Store
from agentgym.tasks import Registry

# No script runs on our pages and nothing is loaded from elsewhere, whatever an observation smuggles in.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_DOCUMENTATION = ("/docs", "/redoc")  # FastAPI's own pages load their script from elsewhere


def create_app(store_url: str) -> FastAPI:
    """The application over the store at `store_url` (SQLite path or SQLAlchemy URL).

    Opens the store at once, so that a wrong URL or a newer schema is an error here (StoreError) and not at the first
    request; closes it when the server stops.
    """
    store, registry = Store.open(store_url), Registry(store_url)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        store.close()
        registry.close()

    app = FastAPI(
        title="agentgym", version=agentgym.__version__, description="What was recorded, read-only.", lifespan=lifespan
    )
    app.state.store, app.state.registry = store, registry
    app.add_middleware(GZipMiddleware, minimum_size=2048)
    app.add_exception_handler(AgentGymError, _problem)
    app.add_exception_handler(RequestValidationError, _unusable_request)

    @app.middleware("http")
    async def guard(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await proceed(request)
        if not request.url.path.startswith(_DOCUMENTATION):
            response.headers.update(_HEADERS)
        return response

    app.include_router(api.router)
    app.include_router(pages.router)
    return app


def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, AgentGymError)
    status = 404 if isinstance(error, NotFoundError) else 422 if isinstance(error, InputError) else 500
    message = str(error).split("\n  → ")[0]
    return JSONResponse({"error": message, "hint": error.hint}, status_code=status)


def _unusable_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors()]
    return JSONResponse({"error": "; ".join(faults), "hint": "see /docs"}, status_code=422)
