"""Several coroutines at once, as one call that ends when all have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def together(jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Their results, in order. The first failure cancels the others and is raised, as it is, once they have ended."""
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(job) for job in jobs]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return [task.result() for task in running]
