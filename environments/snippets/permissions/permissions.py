"""Rights of files, as in "rwxr-x---"."""

LETTERS = "rwx"


def to_text(mode):
    """The nine letters of a mode such as 0o750."""
    out = ""
    for place in range(8, -1, -1):
        letter = LETTERS[(8 - place) % 3]
        out += letter if mode >> place & 1 else "-"
    return out


def to_mode(text):
    mode = 0
    for letter in text:
        mode = mode * 2 + (letter != "-")
    return mode


def may_write(text, who="owner"):
    place = ("owner", "group", "others").index(who) * 3 + 1
    return text[place] == "w"
