"""What a rented bicycle costs."""


def days_between(start, end):
    """Days that are paid for; the last one counts."""
    if end < start:
        raise ValueError("back before it was taken")
    return end - start + 1


def price(days, per_day=12, weekly=60):
    """Weeks are cheaper, and never cost more than their days."""
    weeks, rest = divmod(days, 7)
    return weeks * weekly + min(rest * per_day, weekly)


def late_fee(due, returned):
    late = returned - due
    if late <= 0:
        return 0
    return 5 + 15 * late
