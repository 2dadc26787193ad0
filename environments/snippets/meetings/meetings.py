"""Meetings as (start, end) hours."""


def clash(a, b):
    """Do they overlap? One may begin when the other ends."""
    return a[0] < b[1] and b[0] < a[1]


def merged(meetings):
    """Busy times, without overlaps."""
    busy = []
    for start, end in sorted(meetings):
        if busy and start <= busy[-1][1]:
            busy[-1] = (busy[-1][0], max(busy[-1][1], end))
        else:
            busy.append((start, end))
    return busy


def free(meetings, day=(9, 17)):
    """Free times of the day."""
    gaps = []
    at = day[0]
    for start, end in merged(meetings):
        if start > at:
            gaps.append((at, start))
        at = max(at, end)
    if at < day[1]:
        gaps.append((at, day[1]))
    return gaps
