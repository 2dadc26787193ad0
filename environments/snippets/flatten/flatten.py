"""Nested lists."""


def flatten(values, depth=1):
    """One level taken away, or `depth` of them."""
    out = []
    for value in values:
        if isinstance(value, list) and depth > 0:
            out.extend(flatten(value, depth - 1))
        else:
            out.append(value)
    return out


def depth_of(values):
    if not isinstance(values, list):
        return 0
    return 1 + max((depth_of(value) for value in values), default=0)


def chunks(values, size):
    return [values[start : start + size] for start in range(0, len(values), size)]
