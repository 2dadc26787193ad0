"""Days of the week."""

NAMES = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]


def after(day, days):
    """The day so many days later."""
    return NAMES[(NAMES.index(day) + days) % 7]


def is_weekend(day):
    return NAMES.index(day) >= 5


def working_days(first, days):
    """How many of the days from `first` on are no weekend."""
    count = 0
    for offset in range(days):
        if not is_weekend(after(first, offset)):
            count += 1
    return count


def until(day, wanted):
    """Days until the next such day; a week where it is today."""
    days = (NAMES.index(wanted) - NAMES.index(day)) % 7
    return days or 7
