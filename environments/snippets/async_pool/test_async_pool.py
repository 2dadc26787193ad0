import asyncio

from async_pool import batches, gather_all, total


def job(value, seen=None):
    async def work():
        if seen is not None:
            seen.append(value)
        await asyncio.sleep(0)
        return value

    return work


def test_gather_all():
    assert asyncio.run(gather_all([job(1), job(2)])) == [1, 2]


def test_total():
    assert asyncio.run(total([job(4), job(3)])) == 7


def test_batches():
    assert asyncio.run(batches([job(1), job(2), job(3)], 2)) == [1, 2, 3]


def test_no_jobs():
    assert asyncio.run(batches([], 2)) == []
