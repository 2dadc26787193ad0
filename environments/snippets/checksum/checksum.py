"""Check digits."""


def luhn_valid(number):
    """Does the card number (digits and blanks) pass the Luhn check?"""
    digits = [int(letter) for letter in number if letter != " "]
    if len(digits) < 2:
        return False
    total = 0
    for position, digit in enumerate(reversed(digits)):
        if position % 2 == 1:
            digit *= 2
            if digit > 9:
                digit -= 9
        total += digit
    return total % 10 == 0


def isbn10_valid(text):
    """Does the ISBN-10 (hyphens allowed, X for ten at the end) add up?"""
    letters = text.replace("-", "")
    if len(letters) != 10:
        return False
    total = 0
    for index, letter in enumerate(letters):
        if letter == "X" and index == 9:
            value = 10
        elif letter.isdigit():
            value = int(letter)
        else:
            return False
        total += value * (10 - index)
    return total % 11 == 0
