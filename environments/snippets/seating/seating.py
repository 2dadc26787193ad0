"""Seats in a theatre, one text per row ("x" is taken)."""


def free(rows):
    return sum(row.count(".") for row in rows)


def together(rows, people):
    """(row, seat) of the first place where they sit side by side, both from 1."""
    for number, row in enumerate(rows, start=1):
        place = row.find("." * people)
        if place >= 0:
            return number, place + 1
    return None


def book(rows, row, seat):
    """The rows with this seat taken; both from 1."""
    line = rows[row - 1]
    if line[seat - 1] == "x":
        raise ValueError("this seat is taken")
    changed = line[: seat - 1] + "x" + line[seat:]
    return rows[: row - 1] + [changed] + rows[row:]
