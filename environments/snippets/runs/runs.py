"""Run-length coding of texts."""


def encode(text):
    """`aaab` as [("a", 3), ("b", 1)]."""
    runs = []
    for letter in text:
        if runs and runs[-1][0] == letter:
            runs[-1] = (letter, runs[-1][1] + 1)
        else:
            runs.append((letter, 1))
    return runs


def decode(runs):
    """The text that was encoded."""
    return "".join(letter * count for letter, count in runs)


def longest(text):
    """The letter of the longest run; the first one where several are equally long."""
    best = None
    for letter, count in encode(text):
        if best is None or count > best[1]:
            best = (letter, count)
    return best[0] if best else None
