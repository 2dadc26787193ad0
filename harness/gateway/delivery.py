"""Handing an answer to a client that may be gone before it has it.

What was sampled is recorded either way; here it is decided whether somebody got it. A client that closes its connection while
it waits stops waiting, and the generation goes on. A stream counts the characters it hands over; one that is closed before its
last event was aborted there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.background import BackgroundTask

from harness.gateway.api.dialect import Body, Dialect, Event, Served
from harness.gateway.ask import Answer
from harness.gateway.evidence import Exchange
from harness.gateway.refusal import Refusal
from harness.policies.protocol import PolicyError

_CLIENT_GONE = 499
"""nginx's status for it; nobody reads it."""


async def deliver(
    exchange: Exchange, request: Request, body: Body, dialect: Dialect, served: Served, *, ping_s: float
) -> Response:
    """The response to one client. Raises Refusal where there is no answer."""
    exchange.clients += 1
    try:
        streaming = bool(body.get("stream"))
        answer = await _wait(exchange, request, ping_s if streaming else None)
        if streaming:
            events = _stream(exchange, answer, body, dialect, served, ping_s)
            return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        if answer is None:
            return Response(status_code=_CLIENT_GONE)

        async def sent() -> None:
            exchange.whole = True

        return JSONResponse(dialect.document(body, answer, served), background=BackgroundTask(sent))
    finally:
        exchange.clients -= 1


async def _wait(exchange: Exchange, request: Request, patience: float | None) -> Answer | None:
    """The answer; None where the client went away first, or patience ended."""
    answer = asyncio.ensure_future(asyncio.shield(exchange.task))
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({answer, gone}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        return _outcome(answer) if answer.done() and not gone.done() else None
    finally:
        for task in (answer, gone):
            task.cancel()
        await asyncio.gather(answer, gone, return_exceptions=True)


def _outcome(answer: asyncio.Future[Answer]) -> Answer:
    try:
        return answer.result()
    except PolicyError as error:
        raise Refusal(502, str(error), code="policy_failure") from error
    except asyncio.CancelledError as error:
        raise Refusal(403, "this episode is over", code="episode_over") from error


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _stream(
    exchange: Exchange, answer: Answer | None, body: Body, dialect: Dialect, served: Served, ping_s: float
) -> AsyncIterator[bytes]:
    """answer: None while it is being sampled; comments keep the connection meanwhile."""
    exchange.clients += 1
    try:
        while answer is None:
            done, _ = await asyncio.wait({exchange.task}, timeout=ping_s)
            if not done:
                yield b": sampling\n\n"
                continue
            try:
                answer = _outcome(exchange.task)
            except Refusal as refusal:  # the status has been sent; an event has to say it
                yield Event(dialect.refusal(refusal), name="error").encode()
                return
        chars = 0
        for event in dialect.events(body, answer, served):
            yield event.encode()
            # Reached once the event before it has been taken: what a closed connection never took does not count.
            chars += event.chars
            exchange.sent = max(exchange.sent, chars)
        exchange.whole = True
    finally:
        exchange.clients -= 1
