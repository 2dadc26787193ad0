"""Blocks of memory, first fit."""


def allocate(free, size):
    """(place, free blocks afterwards); place is None where nothing fits. free: (start, length)."""
    for index, (start, length) in enumerate(free):
        if length >= size:
            rest = [(start + size, length - size)] if length > size else []
            return start, free[:index] + rest + free[index + 1 :]
    return None, free


def release(free, start, size):
    """The free blocks with this one, neighbours joined."""
    joined = []
    for place, length in sorted(free + [(start, size)]):
        if joined and joined[-1][0] + joined[-1][1] == place:
            joined[-1] = (joined[-1][0], joined[-1][1] + length)
        else:
            joined.append((place, length))
    return joined


def largest(free):
    return max((length for _, length in free), default=0)
