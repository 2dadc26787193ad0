"""Texts that read the same both ways."""


def letters(text):
    return [letter.lower() for letter in text if letter.isalnum()]


def is_palindrome(text):
    found = letters(text)
    return found == found[::-1]


def longest(text):
    """The longest palindrome in the text; the first of several."""
    best = ""
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            part = text[start:end]
            if part == part[::-1] and len(part) > len(best):
                best = part
    return best
