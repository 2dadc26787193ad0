"""Roman numerals."""

NUMERALS = [
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
]


def to_roman(number):
    """The numeral for 1 to 3999."""
    if number < 1 or number > 3999:
        raise ValueError(f"no numeral for {number}")
    text = ""
    for value, numeral in NUMERALS:
        while number >= value:
            text += numeral
            number -= value
    return text


def from_roman(text):
    """The number that a numeral stands for."""
    number = 0
    index = 0
    for value, numeral in NUMERALS:
        while text.startswith(numeral, index):
            number += value
            index += len(numeral)
    if index != len(text) or not text:
        raise ValueError(f"not a numeral: {text!r}")
    return number
