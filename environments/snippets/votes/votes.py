"""Counting votes."""


def tally(votes):
    result = {}
    for vote in votes:
        result[vote] = result.get(vote, 0) + 1
    return result


def winner(votes):
    """Who has more than half of the votes, None where nobody has."""
    for name, count in tally(votes).items():
        if count * 2 > len(votes):
            return name
    return None


def ranking(votes):
    """Names by number of votes, equal ones by name."""
    counts = tally(votes)
    return sorted(counts, key=lambda name: (-counts[name], name))


def seats(votes, number):
    """Seats by the method of D'Hondt."""
    counts = tally(votes)
    given = dict.fromkeys(counts, 0)
    for _ in range(number):
        best = max(sorted(counts), key=lambda name: counts[name] / (given[name] + 1))
        given[best] += 1
    return given
