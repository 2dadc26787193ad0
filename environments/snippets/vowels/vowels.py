"""Counting and hiding vowels."""

VOWELS = "aeiou"


def count_vowels(text):
    return sum(1 for letter in text.lower() if letter in VOWELS)


def hide_vowels(text, mark="*"):
    return "".join(mark if letter.lower() in VOWELS else letter for letter in text)


def longest_run(text):
    """Length of the longest run of vowels."""
    best = 0
    run = 0
    for letter in text:
        if letter in VOWELS:
            run += 1
            best = max(best, run)
        else:
            run = 0
    return best
