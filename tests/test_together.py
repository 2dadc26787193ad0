"""What `together` promises about order, failures and the jobs beside a failed one."""

from __future__ import annotations

import asyncio

import pytest

from agentgym.together import together


@pytest.mark.asyncio
async def test_results_come_in_the_order_of_the_jobs():
    async def after(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    assert await together(map(after, [0.03, 0.0, 0.01])) == [0.03, 0.0, 0.01]
    assert await together([]) == []


@pytest.mark.asyncio
async def test_a_failure_is_raised_as_it_is_once_the_others_have_cleaned_up():
    cleaned = []

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def runs(number: int) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            cleaned.append(number)

    with pytest.raises(ValueError, match="no"):
        await together([runs(0), together([fails(), runs(1)]), runs(2)])
    assert sorted(cleaned) == [0, 1, 2]
