"""Sliding windows over a list."""


def largest_sum(values, width):
    """The largest sum of `width` neighbours."""
    current = sum(values[:width])
    best = current
    for place in range(width, len(values)):
        current += values[place] - values[place - width]
        best = max(best, current)
    return best


def longest_distinct(text):
    """Length of the longest part without a letter twice."""
    last = {}
    start = 0
    best = 0
    for place, letter in enumerate(text):
        if letter in last and last[letter] >= start:
            start = last[letter] + 1
        last[letter] = place
        best = max(best, place - start + 1)
    return best
