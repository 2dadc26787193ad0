"""Divisors of whole numbers."""


def divisors(number):
    return [d for d in range(1, number + 1) if number % d == 0]


def is_perfect(number):
    """Is it the sum of its smaller divisors?"""
    return number > 1 and sum(divisors(number)[:-1]) == number


def collatz(number):
    """Steps until 1: halve even numbers, else three times and one."""
    steps = 0
    while number != 1:
        if number % 2 == 0:
            number //= 2
        else:
            number = 3 * number + 1
        steps += 1
    return steps


def digital_root(number):
    while number > 9:
        number = sum(int(digit) for digit in str(number))
    return number
