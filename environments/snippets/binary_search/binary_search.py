"""Searching in sorted lists."""


def lower_bound(values, wanted):
    """The first place whose value is not less than the wanted one."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def contains(values, wanted):
    place = lower_bound(values, wanted)
    return place < len(values) and values[place] == wanted


def count(values, wanted):
    """How often a whole number occurs."""
    return lower_bound(values, wanted + 1) - lower_bound(values, wanted)
