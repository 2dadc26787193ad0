"""Checking rows of a number puzzle."""


def complete(numbers):
    """Does the line hold each of 1 to n once?"""
    return sorted(numbers) == list(range(1, len(numbers) + 1))


def missing(numbers, size):
    """Numbers from 1 to size that are not in the line; 0 stands for an empty place."""
    return [n for n in range(1, size + 1) if n not in numbers]


def columns(grid):
    return [list(column) for column in zip(*grid)]


def conflicts(numbers):
    """Numbers that occur more than once."""
    found = []
    for number in numbers:
        if number != 0 and numbers.count(number) > 1 and number not in found:
            found.append(number)
    return found


def solved(grid):
    return all(complete(line) for line in grid) and all(complete(line) for line in columns(grid))
