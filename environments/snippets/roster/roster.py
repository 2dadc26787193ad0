"""Who is on duty."""


def on_duty(names, day, shifts=1):
    """Names that work on this day (from 0), in turn."""
    first = day * shifts
    return [names[(first + place) % len(names)] for place in range(shifts)]


def hours(plan, name, length=8):
    return sum(length for day in plan if name in day)


def fair(plan, names, most=1):
    """Does nobody work more than `most` days more than another?"""
    days = [sum(1 for day in plan if name in day) for name in names]
    return max(days) - min(days) <= most


def swap(plan, day, old, new):
    """The plan with somebody else on this day."""
    if new in plan[day]:
        raise ValueError(f"{new} works on this day already")
    changed = [new if name == old else name for name in plan[day]]
    return plan[:day] + [changed] + plan[day + 1 :]
