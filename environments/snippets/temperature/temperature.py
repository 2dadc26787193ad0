"""Temperatures between scales."""


def to_fahrenheit(celsius):
    return celsius * 9 / 5 + 32


def to_celsius(fahrenheit):
    return (fahrenheit - 32) * 5 / 9


def feels(celsius):
    """A word for the weather."""
    if celsius < 0:
        return "freezing"
    if celsius < 15:
        return "cold"
    if celsius <= 25:
        return "mild"
    return "hot"
