"""Shift and mirror ciphers for letters; everything else stays."""


def shift(text, by):
    """Every letter moved on by `by` places, around the end of the alphabet."""
    out = []
    for letter in text:
        if letter.islower():
            out.append(chr((ord(letter) - ord("a") + by) % 26 + ord("a")))
        elif letter.isupper():
            out.append(chr((ord(letter) - ord("A") + by) % 26 + ord("A")))
        else:
            out.append(letter)
    return "".join(out)


def unshift(text, by):
    return shift(text, -by)


def mirror(text):
    """a for z, b for y; lower case only."""
    return "".join(chr(ord("a") + ord("z") - ord(letter)) if letter.islower() else letter for letter in text)
