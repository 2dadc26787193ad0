"""Bars made of text."""


def bins(values, width):
    """{lower edge: how many}; every bin holds its lower edge and not its upper one."""
    result = {}
    for value in values:
        edge = value // width * width
        result[edge] = result.get(edge, 0) + 1
    return dict(sorted(result.items()))


def bar(count, most, length=10):
    """A bar whose full length stands for `most`; something is shown for every count above zero."""
    if count == 0:
        return ""
    return "#" * max(1, count * length // most)


def lines(counts):
    most = max(counts.values())
    return [f"{name} {bar(count, most)}".rstrip() for name, count in counts.items()]
