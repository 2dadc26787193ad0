"""Handing an answer to a client that may be gone before it has it.

What was sampled is recorded either way; here it is decided whether somebody got it. A client that closes its connection while
it waits stops waiting, and the generation goes on. A stream hands text over while it is sampled, as far as it is sure
(`live.py`). It counts the characters; one that is closed before its last event was aborted there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from harness.gateway.api.dialect import PIECE, Body, Dialect, Event, Served
from harness.gateway.ask import Answer
from harness.gateway.evidence import Exchange
from harness.gateway.refusal import Refusal
from harness.policies.protocol import PolicyError

_CLIENT_GONE = 499
"""nginx's status for it; nobody reads it."""


async def deliver(
    exchange: Exchange, request: Request, body: Body, dialect: Dialect, served: Served, *, ping_s: float
) -> Response:
    """The response to one client, whose the exchange is until it is over. Raises Refusal where there is no answer."""
    exchange.clients += 1
    try:
        streaming = bool(body.get("stream"))
        answer = await _wait(exchange, request, ping_s if streaming else None)  # an error then still has its status
        if streaming:
            events = _stream(exchange, answer, body, dialect, served, ping_s)
            return _Events(events, exchange)
        if answer is not None:
            return _Document(dialect.document(body, answer, served), exchange)
    except BaseException:
        exchange.clients -= 1
        raise
    exchange.clients -= 1
    return Response(status_code=_CLIENT_GONE)


class _Document(JSONResponse):
    """A whole answer, and the end of its delivery."""

    def __init__(self, content: Any, exchange: Exchange) -> None:
        super().__init__(content)
        self._exchange = exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
            self._exchange.whole = True
        finally:
            self._exchange.clients -= 1


class _Events(StreamingResponse):
    """An answer in pieces, and the end of its delivery."""

    def __init__(self, events: AsyncIterator[bytes], exchange: Exchange) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self._exchange = exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._exchange.clients -= 1


async def _wait(exchange: Exchange, request: Request, patience: float | None) -> Answer | None:
    """The answer; None where the client went away first, there is text to begin with, or patience ended."""
    answer = asyncio.ensure_future(asyncio.shield(exchange.task))
    gone = asyncio.create_task(_disconnected(request))
    text = asyncio.create_task(_text(exchange, 0) if patience is not None else asyncio.Event().wait())
    tasks: set[asyncio.Future[Any]] = {answer, gone, text}
    try:
        await asyncio.wait(tasks, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        return _outcome(answer) if answer.done() and not gone.done() else None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _text(exchange: Exchange, length: int) -> object:
    """Returns once there is a piece of text behind the first `length` characters."""
    if exchange.live is None:
        return await asyncio.Event().wait()
    while len(exchange.live.text) < length + PIECE:
        await exchange.live.changed.wait()
    return None


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
    given: list[Event] = []
    chars = 0
    while True:
        events: list[Event] = []
        try:
            if answer is None and not exchange.task.done():
                events = await _begun(exchange, chars, body, dialect, served, ping_s)
                if not events:
                    if not exchange.task.done():
                        yield b": sampling\n\n"
                    continue
            else:
                answer = answer or _outcome(exchange.task)
                events = list(dialect.events(body, answer, served))
            if events[: len(given)] != given:
                raise Refusal(500, "the answer does not begin with what was streamed of it", code="stream_broken")
        except Refusal as refusal:  # the status has been sent; an event has to say it
            yield Event(dialect.refusal(refusal), name="error").encode()
            return
        for event in events[len(given) :]:
            yield event.encode()
            # Reached once the event before it has been taken: what a closed connection never took does not count.
            given.append(event)
            chars += event.chars
            exchange.sent = max(exchange.sent, chars)
        if answer is not None:
            exchange.whole = True
            return


async def _begun(
    exchange: Exchange, chars: int, body: Body, dialect: Dialect, served: Served, ping_s: float
) -> list[Event]:
    """All events up to the last that hands over text, as soon as there is a piece more than `chars`; none where the answer or
    the time for a ping came first.
    """
    text = asyncio.create_task(_text(exchange, chars))
    try:
        await asyncio.wait({exchange.task, text}, timeout=ping_s, return_when=asyncio.FIRST_COMPLETED)
        if not text.done() or exchange.live is None:
            return []
    finally:
        text.cancel()
    answer = exchange.live.answer(len(exchange.live.text) // PIECE * PIECE)
    events = list(dialect.events(body, answer, served))
    return events[: max(at for at, event in enumerate(events) if event.chars) + 1]
