"""Jobs that wait for one another."""


async def double(fetch, key):
    value = await fetch(key)
    return value * 2


async def first_answer(sources, key):
    """The first answer that is not None, asking one source after the other."""
    for source in sources:
        answer = await source(key)
        if answer is not None:
            return answer
    return None


async def retry(job, attempts=3):
    """The job's result; its last error where every attempt fails."""
    for attempt in range(attempts):
        try:
            return await job()
        except ValueError:
            if attempt == attempts - 1:
                raise
