"""Balanced brackets."""

PAIRS = {")": "(", "]": "[", "}": "{"}


def balanced(text):
    """Is every bracket closed by its partner, in the right order?"""
    open_brackets = []
    for letter in text:
        if letter in PAIRS.values():
            open_brackets.append(letter)
        elif letter in PAIRS:
            if not open_brackets or open_brackets.pop() != PAIRS[letter]:
                return False
    return not open_brackets


def depth(text):
    """How deep round brackets are nested at most."""
    deepest = 0
    level = 0
    for letter in text:
        if letter == "(":
            level += 1
            deepest = max(deepest, level)
        elif letter == ")":
            level -= 1
    return deepest
