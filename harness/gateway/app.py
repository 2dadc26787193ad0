"""The gateway as an HTTP application.

    GET  /v1/models                                     what is served
    POST /v1/chat/completions, /v1/completions, ...     see `api/`
    GET  /episode                                       the task of this key: instruction, workdir, limits
    POST /episode/exec                                  a command in the episode's sandbox
    POST /episode/finish                                the agent is done
    /episodes                                           episodes are registered here, see `desk.py`
    GET  /health

Every route but the last two wants the episode's key, as a bearer token or in `x-api-key`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

import agentgym
from agentgym.store.kinds import nested_deeper
from harness.gateway.api.chat import Chat
from harness.gateway.api.completions import Completions
from harness.gateway.api.dialect import Body, Dialect, Served
from harness.gateway.api.messages import AnthropicMessages
from harness.gateway.api.responses import Responses
from harness.gateway.delivery import deliver
from harness.gateway.desk import Desk
from harness.gateway.gateway import Gateway
from harness.gateway.messages import spelt
from harness.gateway.refusal import Refusal, unusable
from harness.render.guarded import DEEPEST

DIALECTS: Mapping[str, Dialect] = {
    "/v1/chat/completions": Chat(),
    "/v1/completions": Completions(),
    "/v1/responses": Responses(),
    "/v1/messages": AnthropicMessages(),
}


def create_app(gateway: Gateway, desk: Desk | None = None) -> FastAPI:
    """The routes over the episodes that `gateway` holds open. desk: also those that register episodes."""
    app = FastAPI(title="agentgym gateway", version=agentgym.__version__, openapi_url=None)

    @app.exception_handler(Refusal)
    async def refused(request: Request, refusal: Refusal) -> Response:  # pyright: ignore[reportUnusedFunction]
        path = request.url.path
        dialect = DIALECTS.get(path) or DIALECTS.get(f"/v1{path}") or Chat()
        return JSONResponse(dialect.refusal(refusal), status_code=refusal.status)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:  # pyright: ignore[reportUnusedFunction]
        message = f"{request.method} {request.url.path}: {error.detail}"
        return await refused(request, Refusal(error.status_code, message))

    @app.get("/health")
    def health() -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return {"status": "ok", "open_episodes": len(gateway)}

    @app.get("/v1/models")
    @app.get("/models")
    def models(request: Request) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        setting = gateway.session(_key(request)).place.setting
        context = min(setting.profile.limits.max_context, setting.policy.context_length)
        name = setting.policy.model or setting.policy.name
        model = {"id": name, "object": "model", "created": 0, "owned_by": "agentgym", "max_model_len": context}
        return {"object": "list", "data": [model]}

    for path, dialect in DIALECTS.items():
        for route in (path, path.removeprefix("/v1")):  # some clients add /v1 to a base URL, some expect it there
            app.post(route)(_completion(gateway, dialect))

    @app.get("/episode")
    def episode(request: Request) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return gateway.session(_key(request)).describe()

    @app.post("/episode/exec")
    async def execute(request: Request) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        session = gateway.session(_key(request))
        seen = await session.execute(await _body(request, gateway.max_body))
        if not seen.valid:
            raise unusable(seen.text)
        return {"output": seen.text, "exit_code": seen.exit_code, "truncated": seen.truncated}

    @app.post("/episode/finish")
    async def finish(request: Request) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        session = gateway.session(_key(request))
        session.finish()
        return {"finished": True}

    if desk is not None:
        _add_desk(app, desk, gateway.max_body)
    return app


def _add_desk(app: FastAPI, desk: Desk, max_body: int) -> None:
    @app.post("/episodes", status_code=201)
    async def register(request: Request) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        desk.authorise(_key(request))
        return await desk.register(await _body(request, max_body))

    @app.get("/episodes/{id_}")
    async def state(request: Request, id_: str, wait: float = 0.0) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        desk.authorise(_key(request))
        return await desk.state(id_, wait)

    @app.delete("/episodes/{id_}")
    async def cancel(request: Request, id_: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        desk.authorise(_key(request))
        return await desk.cancel(id_)


def _completion(gateway: Gateway, dialect: Dialect) -> Callable[[Request], Awaitable[Response]]:
    async def complete(request: Request) -> Response:
        session = gateway.session(_key(request))
        body = await _body(request, gateway.max_body)
        ask = dialect.read(body)
        key = request.headers.get("idempotency-key") or None
        exchange = session.ask(ask, retry=_is_retry(request), key=key, live=bool(body.get("stream")))
        setting = session.place.setting
        served = Served(setting.policy.model or setting.policy.name, setting.renderer)
        return await deliver(exchange, request, body, dialect, served, ping_s=gateway.ping_s)

    return complete


def _key(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key")


def _is_retry(request: Request) -> bool:
    """OpenAI's and Anthropic's own clients count their attempts in a header."""
    count = request.headers.get("x-stainless-retry-count", "0")
    return count.isdecimal() and count.strip("0") != ""


async def _body(request: Request, limit: int) -> Body:
    """The request's JSON object, read no further than the limit."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > limit:
            raise Refusal(413, f"the request body is larger than {limit} bytes", code="request_too_large")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise unusable(f"the request body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise unusable("the request body is not a JSON object")
    if nested_deeper(body, 2 * DEEPEST):
        raise unusable(f"the request body is nested deeper than {2 * DEEPEST} levels")
    if not spelt(body):
        raise unusable("the request body holds NaN, an infinity or half of a surrogate pair, which JSON cannot send")
    return body
