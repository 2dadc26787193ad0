"""How fast an engine is asked for sandboxes: few starts at once, fewer while it fails, again until it recovers.

The number of starts in flight follows the engine's answers: halved by an error, up again by successes, never above
`most`. A failed start whose error says that a retry is safe is repeated with growing pauses, for a minute in all, so a
restart of the engine is a delay and nothing else. An error that says it is not (an image that is missing, a limit that
cannot be) is raised at once.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from agentgym.sandbox.protocol import SandboxError

logger = logging.getLogger(__name__)
T = TypeVar("T")

PATIENCE_S = 60.0
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 8.0


class Throttle:
    def __init__(self, most: int, *, patience_s: float = PATIENCE_S) -> None:
        self._most = most
        self._window = float(most)
        self._patience_s = patience_s
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.running = 0
        self.retries = 0

    @property
    def free(self) -> bool:
        """Whether a start would begin at once."""
        return not self._waiting and self.running < int(self._window)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def run(self, start: Callable[[], Awaitable[T]]) -> T:
        """The result of `start`, repeated while its errors are safe to retry; raises the last of them."""
        deadline = time.monotonic() + self._patience_s
        pause = _FIRST_PAUSE_S
        while True:
            try:
                async with self._slot():
                    result = await start()
            except SandboxError as error:
                if not error.retry_safe:
                    raise
                self._window = max(1.0, self._window / 2)
                if time.monotonic() + pause > deadline:
                    raise
                self.retries += 1
                logger.warning("a sandbox did not start, again in about %.1f s: %s", pause, error)
            else:
                self._window = min(float(self._most), self._window + 1 / self._window)
                self._wake()
                return result
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        if not self.free:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                elif not turn.cancelled():  # it was our turn already
                    self._end()
                raise
        else:
            self.running += 1
        try:
            yield
        finally:
            self._end()

    def _end(self) -> None:
        self.running -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self.running < int(self._window):
            self.running += 1
            turn = self._waiting.popleft()
            if turn.cancelled():
                self.running -= 1
            else:
                turn.set_result(None)
