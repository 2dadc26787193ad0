"""Binary search in sorted lists."""


def lower_bound(items, value):
    """Index of the first item that is not smaller than `value`."""
    low, high = 0, len(items)
    while low < high:
        middle = (low + high) // 2
        if items[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


def contains(items, value):
    index = lower_bound(items, value)
    return index < len(items) and items[index] == value


def count(items, value):
    """How often the value occurs."""
    index = lower_bound(items, value)
    number = 0
    while index < len(items) and items[index] == value:
        number += 1
        index += 1
    return number
