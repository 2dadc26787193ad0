"""Rankings and grades."""


def grade(points, maximum=100):
    """A from 90 %, B from 80 %, C from 70 %, D from 60 %, else F."""
    share = points * 100 / maximum
    if share >= 90:
        return "A"
    if share >= 80:
        return "B"
    if share >= 70:
        return "C"
    if share >= 60:
        return "D"
    return "F"


def ranking(scores):
    """{name: rank}; equal scores share a rank, and the next rank is skipped."""
    ordered = sorted(scores.items(), key=lambda item: -item[1])
    ranks = {}
    for position, (name, score) in enumerate(ordered):
        if position > 0 and score == ordered[position - 1][1]:
            ranks[name] = ranks[ordered[position - 1][0]]
        else:
            ranks[name] = position + 1
    return ranks


def without_extremes(values):
    """The mean without the lowest and the highest value; the plain mean of fewer than three."""
    if len(values) < 3:
        return sum(values) / len(values)
    ordered = sorted(values)[1:-1]
    return sum(ordered) / len(ordered)
