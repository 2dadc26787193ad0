"""Polynomials as lists of coefficients, the constant one first."""


def value(coefficients, x):
    result = 0
    for coefficient in reversed(coefficients):
        result = result * x + coefficient
    return result


def add(left, right):
    size = max(len(left), len(right))
    padded = [side + [0] * (size - len(side)) for side in (left, right)]
    return [a + b for a, b in zip(*padded)]


def multiply(left, right):
    result = [0] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            result[i + j] += a * b
    return result


def derivative(coefficients):
    return [power * coefficient for power, coefficient in enumerate(coefficients)][1:]
