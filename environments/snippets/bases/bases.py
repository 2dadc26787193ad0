"""Numbers in other bases."""

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def to_base(number, base):
    if base < 2 or base > 36:
        raise ValueError(f"no such base: {base}")
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    number = abs(number)
    text = ""
    while number > 0:
        number, digit = divmod(number, base)
        text = DIGITS[digit] + text
    return sign + text


def from_base(text, base):
    negative = text.startswith("-")
    number = 0
    for letter in text.lower().lstrip("-"):
        digit = DIGITS.index(letter)
        if digit >= base:
            raise ValueError(f"{letter} is no digit in base {base}")
        number = number * base + digit
    return -number if negative else number


def digit_sum(number, base=10):
    total = 0
    number = abs(number)
    while number:
        total += number % base
        number //= base
    return total
