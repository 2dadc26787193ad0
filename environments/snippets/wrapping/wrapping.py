"""Lines of text."""


def wrap(text, width):
    """Words on lines of at most `width` letters; a longer word gets a line of its own."""
    lines = []
    line = ""
    for word in text.split():
        if not line:
            line = word
        elif len(line) + 1 + len(word) <= width:
            line += " " + word
        else:
            lines.append(line)
            line = word
    if line:
        lines.append(line)
    return lines


def centre(text, width, fill=" "):
    """The text in the middle; one more on the right where it does not come out even."""
    missing = max(0, width - len(text))
    left = missing // 2
    return fill * left + text + fill * (missing - left)


def shorten(text, width, mark="..."):
    if len(text) <= width:
        return text
    return text[: width - len(mark)] + mark
