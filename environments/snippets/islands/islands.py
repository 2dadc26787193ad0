"""Land and water on a grid of text rows ("#" is land)."""


def neighbours(row, column):
    return [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]


def islands(grid):
    """Sizes of the islands, largest first."""
    land = {(r, c) for r, line in enumerate(grid) for c, mark in enumerate(line) if mark == "#"}
    sizes = []
    while land:
        todo = [land.pop()]
        size = 0
        while todo:
            size += 1
            for place in neighbours(*todo.pop()):
                if place in land:
                    land.remove(place)
                    todo.append(place)
        sizes.append(size)
    return sorted(sizes, reverse=True)
