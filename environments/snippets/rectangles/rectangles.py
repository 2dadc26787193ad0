"""Rectangles as (left, top, right, bottom)."""


def area(box):
    left, top, right, bottom = box
    return max(right - left, 0) * max(bottom - top, 0)


def overlap(a, b):
    """The box that both cover; its area is 0 where they do not meet."""
    return (max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3]))


def contains(box, x, y):
    left, top, right, bottom = box
    return left <= x < right and top <= y < bottom


def union_area(a, b):
    return area(a) + area(b) - area(overlap(a, b))
