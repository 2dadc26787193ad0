"""Pages of a long list."""


def pages(count, size):
    """How many pages there are; an empty list has one."""
    if count == 0:
        return 1
    return (count + size - 1) // size


def page(items, number, size=10):
    """The items of a page, counted from 1."""
    if number < 1 or number > pages(len(items), size):
        raise IndexError(f"no page {number}")
    start = (number - 1) * size
    return items[start : start + size]


def links(number, last, around=1):
    """Numbers to show: the first, the last and those around; None for a gap."""
    shown = [n for n in range(1, last + 1) if n in (1, last) or abs(n - number) <= around]
    out = []
    for place, n in enumerate(shown):
        if place > 0 and n - shown[place - 1] > 1:
            out.append(None)
        out.append(n)
    return out
