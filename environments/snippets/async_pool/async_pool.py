"""Awaiting several things in order."""

import asyncio


async def gather_all(jobs):
    """Results in the order of the jobs."""
    return list(await asyncio.gather(*[job() for job in jobs]))


async def total(jobs):
    amount = 0
    for job in jobs:
        amount += await job()
    return amount


async def batches(jobs, size):
    """Results, at most `size` jobs at a time."""
    results = []
    for start in range(0, len(jobs), size):
        results += await gather_all(jobs[start : start + size])
    return results
