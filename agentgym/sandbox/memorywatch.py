"""Ends fights for memory: hundreds of processes at the memory limit, of which the kernel kills one at a time.

One process too large is the kernel's to kill, and the sandbox goes on. A crowd that forks anew after each kill is another
matter: all of it spins in the kernel, far over the CPU limit, neither the command's time limit nor PID 1 gets its turn, and
the whole machine is slow for minutes. So where the memory limit has killed of a crowd more than once in a few looks, all that
runs there is killed from outside; the command's result says `oom_killed`, and the sandbox goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agentgym.sandbox import cgroups
from agentgym.sandbox.watch import Watch

logger = logging.getLogger(__name__)

LOOK_S = 3.0
LOOKS = 4
CROWD = 64
KILLS = 2
"""Within so many looks at so many processes, so many of them were killed."""


class Watched(Protocol):
    """A sandbox whose memory limit is looked after."""

    id: str

    async def memory_groups(self) -> Sequence[Path]:
        """Directories of its control groups; empty where they cannot be seen from here."""
        ...

    async def rescue(self) -> None:
        """Kill all that runs in it."""
        ...


@dataclass(slots=True)
class _Record:
    id: str
    sandbox: Watched
    groups: Sequence[Path] | None = None
    kills: deque[int] = field(default_factory=lambda: deque(maxlen=LOOKS + 1))


class MemoryWatch(Watch[_Record]):
    """Looks after the sandboxes of one backend."""

    def add(self, sandbox: Watched) -> None:
        self._begin(_Record(sandbox.id, sandbox))

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self._judge_all()

    async def _judge(self, record: _Record) -> None:
        if record.groups is None:
            record.groups = await record.sandbox.memory_groups()
        record.kills.append(cgroups.oom_kills(record.groups) or 0)
        if record.kills[-1] - record.kills[0] >= KILLS and cgroups.processes(record.groups) >= CROWD:
            record.kills.clear()
            logger.warning("sandbox %s fights for memory; what runs in it is killed", record.id)
            await record.sandbox.rescue()
