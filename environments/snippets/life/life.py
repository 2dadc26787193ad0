"""Cells that live and die."""


def around(cell):
    x, y = cell
    return [(x + dx, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx != 0 or dy != 0]


def step(alive):
    """The living cells of the next generation."""
    counts = {}
    for cell in alive:
        for place in around(cell):
            counts[place] = counts.get(place, 0) + 1
    return {place for place, count in counts.items() if count == 3 or (count == 2 and place in alive)}


def generations(alive, number):
    for _ in range(number):
        alive = step(alive)
    return alive


def is_still(alive):
    return step(alive) == alive
