"""What to take along."""


def best_value(items, limit):
    """The largest value of things (weight, value) that weigh at most the limit together."""
    best = [0] * (limit + 1)
    for weight, value in items:
        for room in range(limit, weight - 1, -1):
            best[room] = max(best[room], best[room - weight] + value)
    return best[limit]


def greedy(items, limit):
    """Names taken in order of value while they fit; items: (name, weight, value)."""
    taken = []
    for name, weight, _ in sorted(items, key=lambda item: -item[2]):
        if weight <= limit:
            taken.append(name)
            limit -= weight
    return taken
