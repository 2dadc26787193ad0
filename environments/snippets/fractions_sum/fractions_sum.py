"""Fractions as (numerator, denominator)."""


def gcd(a, b):
    while b:
        a, b = b, a % b
    return abs(a)


def reduced(numerator, denominator):
    if denominator == 0:
        raise ZeroDivisionError("a fraction of nothing")
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    common = gcd(numerator, denominator)
    return numerator // common, denominator // common


def add(left, right):
    a, b = left
    c, d = right
    return reduced(a * d + c * b, b * d)


def mixed(numerator, denominator):
    """(whole, numerator, denominator) of a fraction that is not negative."""
    return (numerator // denominator, *reduced(numerator % denominator, denominator))
