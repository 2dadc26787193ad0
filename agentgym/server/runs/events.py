"""A run as server-sent events: `progress` whenever its numbers change, `end` once it is over.

The store is asked once a second; a comment line every 15 s keeps proxies from closing a quiet stream. A run from a
command line has no process here to say that it is over, so its stream ends after `QUIET_SECONDS` without a change. A stream
that breaks off without `end`, because its server ends, is to be asked for again.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool

PERIOD = 1.0
KEEP_ALIVE = 15.0
QUIET_SECONDS = 600.0


async def events(look: Callable[[], dict[str, Any]], ending: threading.Event) -> AsyncIterator[str]:
    """look: the run as a JSON-ready dict with `status`, None for a run that was not launched here. ending: of the server."""
    last, changed, spoken = None, time.monotonic(), time.monotonic()
    while not ending.is_set():
        seen = await run_in_threadpool(look)
        text, now = json.dumps(seen), time.monotonic()
        if text != last:
            last, changed, spoken = text, now, now
            yield f"event: progress\ndata: {text}\n\n"
        over = seen["status"] not in (None, "running") or (seen["status"] is None and now - changed > QUIET_SECONDS)
        if over:
            yield f"event: end\ndata: {text}\n\n"
            return
        if now - spoken > KEEP_ALIVE:
            spoken = now
            yield ": still here\n\n"
        await asyncio.sleep(PERIOD)
