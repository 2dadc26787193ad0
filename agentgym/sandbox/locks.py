"""One builder at a time, across tasks and processes: an advisory lock on a file, waited for without blocking the loop.

The kernel drops the lock with the process that held it, so a killed builder never blocks the next one. Whoever holds a
lock may treat every temporary file below it as rubbish of a dead predecessor.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path


@asynccontextmanager
async def file_lock(path: Path) -> AsyncIterator[None]:
    """Hold an exclusive lock on `path` (made if absent, never removed: removal would let two holders in)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        delay = 0.02
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(delay)
                delay = min(delay * 1.5, 0.5)
        yield
    finally:
        os.close(descriptor)
