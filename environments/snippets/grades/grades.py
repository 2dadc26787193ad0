"""School grades."""


def letter(points):
    """A to F for 0 to 100 points."""
    for limit, grade in ((90, "A"), (80, "B"), (70, "C"), (60, "D")):
        if points >= limit:
            return grade
    return "F"


def average(points, drop_lowest=False):
    values = sorted(points)
    if drop_lowest and len(values) > 1:
        values = values[1:]
    return sum(values) / len(values)


def passed(points, needed=60):
    return average(points) >= needed and min(points) > 0
