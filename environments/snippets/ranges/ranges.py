"""Texts such as "1-3,7" for sets of numbers."""


def expand(text):
    numbers = []
    for part in text.split(","):
        if "-" in part:
            first, last = part.split("-")
            numbers.extend(range(int(first), int(last) + 1))
        else:
            numbers.append(int(part))
    return numbers


def collapse(numbers):
    """The shortest text for the sorted numbers."""
    parts = []
    start = previous = numbers[0]
    for number in numbers[1:] + [None]:
        if number is not None and number == previous + 1:
            previous = number
            continue
        parts.append(str(start) if start == previous else f"{start}-{previous}")
        start = previous = number
    return ",".join(parts)
