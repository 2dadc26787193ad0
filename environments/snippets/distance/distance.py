"""How far apart two texts are."""


def hamming(left, right):
    """Number of places at which texts of the same length differ."""
    if len(left) != len(right):
        raise ValueError("the texts are not equally long")
    return sum(1 for a, b in zip(left, right) if a != b)


def levenshtein(left, right):
    """Fewest letters to insert, delete or replace."""
    previous = list(range(len(right) + 1))
    for row, a in enumerate(left, start=1):
        current = [row]
        for column, b in enumerate(right, start=1):
            cost = 0 if a == b else 1
            current.append(min(previous[column] + 1, current[column - 1] + 1, previous[column - 1] + cost))
        previous = current
    return previous[-1]


def closest(word, candidates):
    """The candidate with the smallest distance; the first of several."""
    return min(candidates, key=lambda candidate: levenshtein(word, candidate), default=None)
