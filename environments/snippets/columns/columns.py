"""Texts in columns."""


def widths(rows):
    return [max(len(cell) for cell in column) for column in zip(*rows)]


def align(text, width, right=False):
    space = " " * (width - len(text))
    return space + text if right else text + space


def table(rows, numbers=()):
    """Lines of aligned cells; columns whose place is in `numbers` are right-aligned."""
    wide = widths(rows)
    lines = []
    for row in rows:
        cells = [align(cell, wide[place], place in numbers) for place, cell in enumerate(row)]
        lines.append("  ".join(cells).rstrip())
    return lines
