"""Small helpers for lists."""


def chunks(items, size):
    """Pieces of `size` items; the last may be shorter."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def flatten(items):
    """All items of nested lists, in order."""
    out = []
    for item in items:
        if isinstance(item, list):
            out.extend(flatten(item))
        else:
            out.append(item)
    return out


def unique(items):
    """Each item once, in order of its first appearance."""
    seen = set()
    out = []
    for item in items:
        if item not in seen:
            seen.add(item)
            out.append(item)
    return out


def rotate(items, by):
    """Moved to the left by `by` places."""
    if not items:
        return []
    by = by % len(items)
    return items[by:] + items[:by]
