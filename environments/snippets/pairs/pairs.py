"""Pairs of numbers in a list."""


def two_sum(values, wanted):
    """Places of two values with this sum, the first that are found; None where there are none."""
    seen = {}
    for place, value in enumerate(values):
        if wanted - value in seen:
            return seen[wanted - value], place
        seen[value] = place
    return None


def count_pairs(values, difference):
    """How many pairs of different values lie this far apart."""
    known = set(values)
    return sum(1 for value in known if value + difference in known)


def closest_pair(values):
    """The two neighbours with the smallest difference."""
    ordered = sorted(values)
    best = None
    for a, b in zip(ordered, ordered[1:]):
        if best is None or b - a < best[1] - best[0]:
            best = (a, b)
    return best
