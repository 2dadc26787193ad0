"""Judges' marks."""


def final(marks, difficulty=1.0):
    """The best and the worst mark are left out."""
    if len(marks) < 3:
        raise ValueError("at least three judges")
    counted = sorted(marks)[1:-1]
    return round(sum(counted) * difficulty, 2)


def places(results):
    """{name: place}; equal results share a place, and the next one is left free."""
    return {name: 1 + sum(other > result for other in results.values()) for name, result in results.items()}


def medals(results):
    names = {1: "gold", 2: "silver", 3: "bronze"}
    return {name: names[place] for name, place in places(results).items() if place in names}
