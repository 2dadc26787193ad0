"""Fees of a car park."""


def fee(minutes, per_hour=200, most=1500):
    """The first quarter of an hour is free; then every started hour counts."""
    if minutes <= 15:
        return 0
    hours = (minutes + 59) // 60
    return min(hours * per_hour, most)


def free_places(size, events):
    """Places left after cars came ("in") and left ("out")."""
    cars = 0
    for event in events:
        if event == "in" and cars < size:
            cars += 1
        elif event == "out" and cars > 0:
            cars -= 1
    return size - cars
