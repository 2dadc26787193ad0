"""A little Morse code."""

CODES = {"a": ".-", "e": ".", "i": "..", "n": "-.", "o": "---", "s": "...", "t": "-"}


def encode(text):
    """Letters are parted by a blank, words by a stroke."""
    words = []
    for word in text.lower().split():
        words.append(" ".join(CODES[letter] for letter in word if letter in CODES))
    return " / ".join(words)


def decode(code):
    letters = {sign: letter for letter, sign in CODES.items()}
    words = code.split(" / ")
    return " ".join("".join(letters.get(sign, "?") for sign in word.split()) for word in words)


def duration(sign):
    """A dot lasts 1, a dash 3, and 1 between them."""
    return sum(1 if mark == "." else 3 for mark in sign) + max(len(sign) - 1, 0)
