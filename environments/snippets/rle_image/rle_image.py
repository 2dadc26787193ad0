"""Black and white pictures, packed."""


def pack(row):
    """A row of "#" and "." as lengths of runs, beginning with "."."""
    runs = []
    mark = "."
    length = 0
    for place in row:
        if place != mark:
            runs.append(length)
            mark = place
            length = 0
        length += 1
    runs.append(length)
    return runs


def unpack(runs):
    row = ""
    mark = "."
    for length in runs:
        row += mark * length
        mark = "#" if mark == "." else "."
    return row


def flipped(rows):
    """Left and right exchanged."""
    return [row[::-1] for row in rows]


def ink(rows):
    return sum(row.count("#") for row in rows)
