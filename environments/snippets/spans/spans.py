"""Half-open spans (start, end) on a line."""


def merge(spans):
    """Sorted spans that do not touch, covering the same points."""
    merged = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def overlap(left, right):
    """The common span, None where there is none."""
    start = max(left[0], right[0])
    end = min(left[1], right[1])
    if start >= end:
        return None
    return (start, end)


def length(spans):
    """How many points are covered."""
    return sum(end - start for start, end in merge(spans))
