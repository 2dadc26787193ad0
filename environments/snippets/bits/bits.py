"""Counting and turning bits."""


def ones(number):
    count = 0
    while number:
        count += number & 1
        number >>= 1
    return count


def is_power_of_two(number):
    return number > 0 and number & (number - 1) == 0


def reverse(number, width=8):
    """The lowest `width` bits in the other order."""
    result = 0
    for _ in range(width):
        result = (result << 1) | (number & 1)
        number >>= 1
    return result


def parity(number):
    return ones(number) % 2
