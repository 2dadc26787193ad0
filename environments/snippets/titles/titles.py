"""Titles and initials."""

SMALL = ("a", "an", "the", "of", "and", "in")


def title(text):
    """Capital letters for all words but small ones that are neither first nor last."""
    words = text.lower().split()
    last = len(words) - 1
    out = []
    for index, word in enumerate(words):
        if word in SMALL and 0 < index < last:
            out.append(word)
        else:
            out.append(word.capitalize())
    return " ".join(out)


def initials(name, dot="."):
    return "".join(part[0].upper() + dot for part in name.split())


def shortened(text, width):
    """The text, cut with three dots where it is wider."""
    if len(text) <= width:
        return text
    return text[: width - 3] + "..."
