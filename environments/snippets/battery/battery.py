"""How long a battery lasts."""


def hours_left(percent, drain):
    """Full hours until 5 per cent are left; drain is per cent in an hour."""
    if drain <= 0:
        raise ValueError("nothing drains it")
    return max(percent - 5, 0) // drain


def charge(percent, minutes, fast=False):
    """One per cent in two minutes, or in one where charging is fast; at most 100."""
    gained = minutes if fast else minutes // 2
    return min(percent + gained, 100)


def icon(percent):
    bars = (percent + 24) // 25
    return "[" + "|" * bars + " " * (4 - bars) + "]"
