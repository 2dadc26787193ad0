"""Averages over a series of numbers."""


def moving_average(values, width):
    """Mean of each window of `width` neighbours."""
    if width < 1:
        raise ValueError("the window must hold something")
    means = []
    for start in range(len(values) - width + 1):
        means.append(sum(values[start : start + width]) / width)
    return means


def median(values):
    """The middle value, the mean of the two middle ones for an even number."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2 == 1:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def differences(values):
    """Each value less the one before it."""
    return [after - before for before, after in zip(values, values[1:])]
