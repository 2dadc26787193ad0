"""Kinds of triangles."""


def is_triangle(a, b, c):
    return a + b > c and b + c > a and a + c > b


def kind(a, b, c):
    if not is_triangle(a, b, c):
        return "none"
    different = len({a, b, c})
    if different == 1:
        return "equilateral"
    if different == 2:
        return "isosceles"
    return "scalene"


def is_right(a, b, c):
    short, middle, long = sorted((a, b, c))
    return short**2 + middle**2 == long**2


def perimeter_with(a, b, most):
    """The largest perimeter of a triangle with these sides whose third side is whole and at most `most`."""
    for c in range(most, 0, -1):
        if is_triangle(a, b, c):
            return a + b + c
    return None
