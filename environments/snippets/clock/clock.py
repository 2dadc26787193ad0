"""Times of day as minutes since midnight."""

DAY = 24 * 60


def parse(text):
    """Minutes of "HH:MM"."""
    hours, minutes = text.split(":")
    if int(hours) > 23 or int(minutes) > 59:
        raise ValueError(f"no time of day: {text}")
    return int(hours) * 60 + int(minutes)


def show(minutes):
    minutes = minutes % DAY
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def between(start, end):
    """Minutes from start to end, over midnight if need be."""
    span = parse(end) - parse(start)
    return span if span >= 0 else span + DAY
