"""Texts for addresses."""


def slug(text, limit=20):
    """Lower case letters and digits, parted by single hyphens, not longer than the limit."""
    out = ""
    for letter in text.lower():
        if letter.isalnum():
            out += letter
        elif out and not out.endswith("-"):
            out += "-"
    return out[:limit].strip("-")


def unique(wanted, taken):
    """The wanted name, with a number behind it where it is taken."""
    if wanted not in taken:
        return wanted
    number = 2
    while f"{wanted}-{number}" in taken:
        number += 1
    return f"{wanted}-{number}"
