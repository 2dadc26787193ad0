"""Scores of a quiz."""


def score(answers, right, penalty=0):
    """Points: one for each right answer, less the penalty for each wrong one; None is no answer."""
    points = 0
    for answer, wanted in zip(answers, right):
        if answer is None:
            continue
        if answer == wanted:
            points += 1
        else:
            points -= penalty
    return max(points, 0)


def hardest(sheets, right):
    """Number of the question, from 1, that fewest answered right; the first of several."""
    counts = [sum(sheet[place] == wanted for sheet in sheets) for place, wanted in enumerate(right)]
    return counts.index(min(counts)) + 1


def streak(answers, right):
    best = run = 0
    for answer, wanted in zip(answers, right):
        run = run + 1 if answer == wanted else 0
        best = max(best, run)
    return best
