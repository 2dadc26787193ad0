"""Matrices as lists of rows."""


def transpose(rows):
    return [list(column) for column in zip(*rows)]


def multiply(left, right):
    """The product; ValueError where the shapes do not fit."""
    if left and right and len(left[0]) != len(right):
        raise ValueError("the shapes do not fit")
    return [[sum(a * b for a, b in zip(row, column)) for column in transpose(right)] for row in left]


def rotate(rows):
    """Turned to the right by a quarter."""
    return [list(reversed(column)) for column in zip(*rows)]


def trace(rows):
    """Sum of the diagonal of a square matrix."""
    total = 0
    for index in range(len(rows)):
        total += rows[index][index]
    return total
