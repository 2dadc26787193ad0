"""Colours as #rrggbb."""


def parse(text):
    """(red, green, blue), each 0 to 255; short forms such as #fa0 are allowed."""
    digits = text.lstrip("#")
    if len(digits) == 3:
        digits = "".join(digit * 2 for digit in digits)
    if len(digits) != 6:
        raise ValueError(f"no colour: {text}")
    return tuple(int(digits[place : place + 2], 16) for place in (0, 2, 4))


def show(red, green, blue):
    return "#" + "".join(f"{min(max(part, 0), 255):02x}" for part in (red, green, blue))


def grey(text):
    red, green, blue = parse(text)
    level = (red * 30 + green * 59 + blue * 11) // 100
    return show(level, level, level)
