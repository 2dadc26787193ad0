"""Paces and distances of a runner."""


def pace(minutes, kilometres):
    """Time for one kilometre as "m:ss"."""
    seconds = round(minutes * 60 / kilometres)
    return f"{seconds // 60}:{seconds % 60:02d}"


def speed(minutes, kilometres):
    """Kilometres per hour."""
    return kilometres / (minutes / 60)


def splits(times):
    """Seconds of each lap, from the times on the clock."""
    laps = []
    before = 0
    for time in times:
        laps.append(time - before)
        before = time
    return laps


def fastest(times):
    """Number of the fastest lap, from 1."""
    laps = splits(times)
    return laps.index(min(laps)) + 1
