import asyncio

import pytest
from async_jobs import double, first_answer, retry


async def number(key):
    return len(key)


async def nothing(key):
    return None


def failing(times):
    calls = []

    async def job():
        calls.append(1)
        if len(calls) <= times:
            raise ValueError("not yet")
        return len(calls)

    return job


def test_double():
    assert asyncio.run(double(number, "abc")) == 6


def test_first_answer():
    assert asyncio.run(first_answer([nothing, number], "ab")) == 2


def test_no_answer():
    assert asyncio.run(first_answer([nothing], "ab")) is None


def test_retry():
    assert asyncio.run(retry(failing(2))) == 3


def test_retry_gives_up():
    with pytest.raises(ValueError):
        asyncio.run(retry(failing(3)))


def test_more_attempts():
    assert asyncio.run(retry(failing(3), attempts=4)) == 4
