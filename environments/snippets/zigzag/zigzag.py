"""Texts written in other orders."""


def rows(text, number):
    """The text cut into rows of this many letters."""
    return [text[place : place + number] for place in range(0, len(text), number)]


def rail_fence(text, rails):
    """Letters written down and up over the rails, read rail by rail."""
    lines = [""] * rails
    rail = 0
    step = 1
    for letter in text:
        lines[rail] += letter
        if rail + step < 0 or rail + step >= rails:
            step = -step
        rail += step
    return "".join(lines)


def snake(grid):
    """Rows of a grid one after the other, every second one backwards."""
    out = []
    for number, row in enumerate(grid):
        out += row if number % 2 == 0 else row[::-1]
    return out
