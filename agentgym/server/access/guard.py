"""One ASGI layer around everything: what is refused before a route runs, and what is noted after it.

Refused: a host name that is not ours while there is no authentication (DNS rebinding), a write that a browser sends
from another site (CSRF), a body above the limit, and more requests a second than the rate allows. Noted: a counter and
a duration per route, and a row of the audit log for each write, whoever made it. Plain ASGI, so that streams pass.
"""

from __future__ import annotations

import logging
import time
from urllib.parse import urlsplit

import sqlalchemy as sa
from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentgym.logs import facts
from agentgym.server.access.rate import Buckets
from agentgym.server.measures import Measures
from agentgym.server.problem import RequestError, problem_response
from agentgym.server.settings import LOOPBACK, ServerSettings
from agentgym.store.engine import writing
from agentgym.store.errors import StoreError
from agentgym.store.schema import server_audit as audit

_WRITES = ("POST", "PUT", "PATCH", "DELETE")
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # Our own scripts and styles only: nothing that an observation smuggles in can run or load anything.
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        b"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
)
_log = logging.getLogger(__name__)


class Guard:
    def __init__(
        self, app: ASGIApp, *, settings: ServerSettings, measures: Measures, engine: sa.Engine, buckets: Buckets
    ) -> None:
        self.app = app
        self.settings = settings
        self.measures = measures
        self.engine = engine
        self.buckets = buckets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        request = Request(scope)
        refusal = self._refusal(request)
        if refusal is not None:
            await refusal(scope, receive, noting)
        else:
            await self.app(scope, self._limited(receive), noting)
        route = getattr(scope.get("route"), "path", "(none)")
        if request.url.path.startswith("/v1/") and not route.startswith(("/v1/", "(")):
            route = f"/v1{route}"  # a route knows its path inside its router
        seconds = time.perf_counter() - started
        self.measures.request(request.method, route, status, seconds)
        if self.settings.access_log:
            self._say(request, route, status, seconds)
        if request.method in _WRITES:
            await run_in_threadpool(self._note, request, status)

    def _say(self, request: Request, route: str, status: int, seconds: float) -> None:
        """A line of the log: the route and not the path, no header, no query. What was asked for is nobody's to collect."""
        caller = request.scope.get("agentgym_caller")
        who, client = caller.id if caller else None, request.client.host if request.client else None
        told = facts(
            method=request.method, route=route, status=status, ms=round(1000 * seconds, 2), who=who, client=client
        )
        _log.info("request", extra=told)

    def _refusal(self, request: Request) -> Response | None:
        try:
            self._check_place(request)
            self._check_rate(request)
            length = request.headers.get("content-length", "0")
            if not length.isdecimal() or int(length) > self.settings.max_body_bytes:
                raise self._too_large()
        except RequestError as error:
            return problem_response(error.status, str(error.args[0]), error.hint, error.headers)
        return None

    def _check_place(self, request: Request) -> None:
        host = request.headers.get("host", "")
        if not self.settings.auth and urlsplit(f"//{host}").hostname not in LOOPBACK:
            raise RequestError(421, f"host {host!r} is not this server", hint="open it as http://127.0.0.1")
        if request.method in _WRITES:
            site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
            foreign = site not in (None, "same-origin", "none") or (origin and urlsplit(origin).netloc != host)
            if foreign:
                raise RequestError(403, f"a page of {origin or 'another site'} may not write here")

    def _check_rate(self, request: Request) -> None:
        rate = self.settings.requests_per_second
        if rate is None:
            return
        client = request.client.host if request.client else ""
        wait = self.buckets.take(client, rate=rate, burst=self.settings.burst)
        if wait:
            headers = {"Retry-After": f"{max(1, round(wait))}"}
            raise RequestError(429, f"more than {rate:g} requests a second", headers=headers)

    def _limited(self, receive: Receive) -> Receive:
        """A chunked body says no length: count it."""
        seen = 0

        async def counting() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.settings.max_body_bytes:
                raise HTTPException(413, self._too_large().args[0])  # the one kind that reading a body lets through
            return message

        return counting

    def _too_large(self) -> RequestError:
        return RequestError(413, f"a request may hold {self.settings.max_body_bytes} bytes")

    def _note(self, request: Request, status: int) -> None:
        caller = request.scope.get("agentgym_caller")
        who = f"{caller.name} ({caller.id})" if caller else ("local" if not self.settings.auth else "nobody")
        row = {
            "at": time.time(),
            "who": who,
            "client": request.client.host if request.client else "",
            "method": request.method,
            "path": request.url.path.encode("utf-8", "backslashreplace").decode().replace("\0", "␀")[:500],
            "status": status,
        }
        try:
            with writing(self.engine) as connection:
                connection.execute(audit.insert(), row)
        except StoreError as error:
            _log.error("the audit log could not be written: %s; %s", error, row)
