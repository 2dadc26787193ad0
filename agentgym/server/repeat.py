"""Idempotency keys: a POST sent twice under one `Idempotency-Key` acts once and is answered the same.

The key is claimed in the store before the route runs, so of two servers one acts. A finished answer is replayed with
`Idempotency-Replayed: true`; the key with another body is refused (422), and so is one whose first request still works
(409). An answer that failed on our side (5xx) frees the key, and so does a server that died before it answered, after
`ABANDONED_SECONDS`. Keys are kept for a day and belong to their token.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Coroutine
from typing import Any

import sqlalchemy as sa
from fastapi import Request, Response
from fastapi.routing import APIRoute
from sqlalchemy.exc import IntegrityError
from starlette.concurrency import run_in_threadpool

from agentgym.server.access.scopes import caller
from agentgym.server.problem import RequestError
from agentgym.store.engine import reading, writing
from agentgym.store.schema import server_answer as answers

KEPT_SECONDS = 86_400.0
ABANDONED_SECONDS = 120.0
_LONGEST = 255


class IdempotentRoute(APIRoute):
    """A route whose POSTs may carry `Idempotency-Key`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        proceed = super().get_route_handler()

        async def handler(request: Request) -> Response:
            key = request.headers.get("idempotency-key")
            if request.method != "POST" or key is None:
                return await proceed(request)
            if not key or len(key) > _LONGEST or not key.isascii() or not key.isprintable():
                raise RequestError(422, f"Idempotency-Key must be 1 to {_LONGEST} printable ASCII characters")
            who = await caller(request)
            engine: sa.Engine = request.app.state.store.engine
            name = f"{who.id}:{request.url.path}:{key}"[:512]
            digest = hashlib.sha256(await request.body()).hexdigest()
            earlier = await run_in_threadpool(_claim, engine, name, digest)
            if earlier is not None:
                return earlier
            try:
                response = await proceed(request)
            except BaseException:
                await run_in_threadpool(_free, engine, name)
                raise
            await run_in_threadpool(_keep, engine, name, response)
            return response

        return handler


def _claim(engine: sa.Engine, key: str, digest: str) -> Response | None:
    """None where the key is ours now; the earlier answer where there is one."""
    now = time.time()
    try:
        with writing(engine) as connection:
            abandoned = answers.c.status.is_(None) & (answers.c.created_at < now - ABANDONED_SECONDS)
            connection.execute(answers.delete().where((answers.c.created_at < now - KEPT_SECONDS) | abandoned))
            connection.execute(answers.insert(), {"key": key, "request_sha256": digest, "created_at": now})
        return None
    except IntegrityError:
        with reading(engine) as connection:
            row = connection.execute(sa.select(answers).where(answers.c.key == key)).first()
    if row is not None and row.request_sha256 != digest:
        raise RequestError(422, "this Idempotency-Key was used with another body", hint="use a new key")
    if row is None or row.status is None:
        told = "the first request with this Idempotency-Key is still at work"
        raise RequestError(409, told, hint="wait and repeat", headers={"Retry-After": "1"})
    headers = {"Idempotency-Replayed": "true"}
    return Response(row.body, status_code=row.status, media_type="application/json", headers=headers)


def _keep(engine: sa.Engine, key: str, response: Response) -> None:
    if response.status_code >= 500:
        _free(engine, key)
        return
    kept = {"status": response.status_code, "body": bytes(response.body)}
    with writing(engine) as connection:
        connection.execute(answers.update().where(answers.c.key == key).values(**kept))


def _free(engine: sa.Engine, key: str) -> None:
    with writing(engine) as connection:
        connection.execute(answers.delete().where(answers.c.key == key))
