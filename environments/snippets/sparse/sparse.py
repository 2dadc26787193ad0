"""Vectors with few entries, as {place: value}."""


def dot(left, right):
    return sum(value * right[place] for place, value in left.items() if place in right)


def add(left, right):
    """Entries that come to zero are left out."""
    result = dict(left)
    for place, value in right.items():
        result[place] = result.get(place, 0) + value
        if result[place] == 0:
            del result[place]
    return result


def scaled(vector, factor):
    if factor == 0:
        return {}
    return {place: value * factor for place, value in vector.items()}


def dense(vector, size):
    return [vector.get(place, 0) for place in range(size)]
