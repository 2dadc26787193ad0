"""Scores of dice games."""


def counts(dice):
    """How often each of 1 to 6 was thrown."""
    return [dice.count(face) for face in range(1, 7)]


def full_house(dice):
    return sorted(count for count in counts(dice) if count > 0) == [2, 3]


def straight(dice):
    """The longest run of faces that follow one another."""
    best = run = 0
    for count in counts(dice):
        run = run + 1 if count else 0
        best = max(best, run)
    return best


def score(dice):
    if full_house(dice):
        return 25
    if straight(dice) >= 4:
        return 30
    return sum(dice)
