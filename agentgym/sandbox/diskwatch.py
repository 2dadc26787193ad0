"""A limit on all that a sandbox writes, where the file system below it can set none: looked after from outside.

Measuring a sandbox means walking what it wrote, so it is done only when it can matter: no sandbox can have passed its limit
unless the disk below has lost as much free space, and that costs one call, twice a second. Who is found over its limit
has everything that runs in it killed; the call that did it says `disk_full`, files stay, and the sandbox goes on, so
that it can be cleaned up. One that grows to twice its limit all the same is closed. Between two looks a fast disk can
take a second's worth more than the limit.
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentgym.sandbox.inventory import tree_size
from agentgym.sandbox.watch import Watch

logger = logging.getLogger(__name__)

_LOOK_S = 0.5
_GROWTH = 16 << 20  # how much more after being stopped is not cleaning up
_LEAST_HEADROOM = 32 << 20


class Watched(Protocol):
    """A sandbox whose writes are looked after."""

    id: str

    async def written(self) -> Path | None:
        """The directory that takes its writes; None where it is not known (any more)."""
        ...

    async def stop_writing(self) -> None:
        """Kill all that runs in it, and say `disk_full` with the next result."""
        ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class _Record:
    id: str
    sandbox: Watched
    limit: int
    used: int = 0
    stopped_at: int | None = None


class DiskWatch(Watch[_Record]):
    """Looks after sandboxes on one disk. place: a directory on it."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self._place = place
        self._added = False

    def add(self, sandbox: Watched, limit: int) -> None:
        """limit: bytes."""
        self._added = True
        self._begin(_Record(sandbox.id, sandbox, limit))

    async def _look(self) -> None:
        free_before, headroom = self._free(), 0
        while True:
            await asyncio.sleep(_LOOK_S)
            free = self._free()
            if self._added:  # nothing was written before it was there
                self._added = False
                free_before = max(free_before, free)
                headroom = min(record.limit - record.used for record in self._records.values())
            if free_before - free >= max(headroom // 2, _LEAST_HEADROOM):
                await self._judge_all()
                free_before = self._free()
                headroom = min((r.limit - r.used for r in self._records.values() if r.used <= r.limit), default=0)

    def _free(self) -> int:
        status = os.statvfs(self._place)
        return status.f_bfree * status.f_frsize

    async def _judge(self, record: _Record) -> None:
        written = await record.sandbox.written()
        if written is None:
            return
        record.used = await asyncio.to_thread(tree_size, written)
        if record.used > 2 * record.limit:
            logger.warning("sandbox %s wrote %d MB and is closed", record.id, record.used >> 20)
            await record.sandbox.close()
        elif record.used <= record.limit:
            record.stopped_at = None
        elif record.stopped_at is None or record.used > record.stopped_at + _GROWTH:
            record.stopped_at = record.used
            logger.warning("sandbox %s wrote %d MB; what runs in it is killed", record.id, record.used >> 20)
            await record.sandbox.stop_writing()
