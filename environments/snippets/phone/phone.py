"""Phone numbers."""


def digits(text):
    return "".join(letter for letter in text if letter.isdigit())


def normal(text, country="49"):
    """The number with its country in front, e.g. +4930123456."""
    number = digits(text)
    if text.strip().startswith("+"):
        return "+" + number
    if number.startswith("00"):
        return "+" + number[2:]
    if number.startswith("0"):
        return "+" + country + number[1:]
    raise ValueError(f"no area code: {text}")


def grouped(number, size=3):
    """Groups of digits, the first one is the shortest."""
    first = len(number) % size
    groups = [number[:first]] if first else []
    groups += [number[place : place + size] for place in range(first, len(number), size)]
    return " ".join(groups)
