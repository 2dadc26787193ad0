"""Looking after live sandboxes from outside: one task for all of a backend's, running only while there are any."""

from __future__ import annotations

import asyncio
import logging
from typing import Generic, Protocol, TypeVar

from agentgym.sandbox.protocol import SandboxError

logger = logging.getLogger(__name__)


class Record(Protocol):
    """What is known of one sandbox."""

    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=Record)


class Watch(Generic[R]):
    """Says when to look in `_look`, and in `_judge` what is done about one sandbox."""

    def __init__(self) -> None:
        self._records: dict[str, R] = {}
        self._task: asyncio.Task[None] | None = None

    def remove(self, id_: str) -> None:
        self._records.pop(id_, None)
        if not self._records and self._task is not None:
            self._task.cancel()
            self._task = None

    def _begin(self, record: R) -> None:
        self._records[record.id] = record
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())

    async def _judge_all(self) -> None:
        for record in list(self._records.values()):
            try:
                await self._judge(record)
            except SandboxError as error:
                logger.warning("sandbox %s cannot be looked after: %s", record.id, error)

    async def _look(self) -> None:
        """Calls `_judge_all` whenever it may matter, until cancelled."""
        raise NotImplementedError

    async def _judge(self, record: R) -> None:
        """Looks at one sandbox; a SandboxError it raises is logged."""
        raise NotImplementedError
