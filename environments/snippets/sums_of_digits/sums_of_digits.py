"""Puzzles with digits."""


def digits(number):
    return [int(digit) for digit in str(abs(number))]


def is_armstrong(number):
    """Is it the sum of its digits, each to the power of their number?"""
    found = digits(number)
    return sum(digit ** len(found) for digit in found) == number


def is_happy(number):
    """Does the repeated sum of squared digits come to 1?"""
    seen = set()
    while number != 1 and number not in seen:
        seen.add(number)
        number = sum(digit * digit for digit in digits(number))
    return number == 1


def reversed_number(number):
    sign = -1 if number < 0 else 1
    return sign * int(str(abs(number))[::-1])
