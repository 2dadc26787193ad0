"""Version numbers such as 1.10.2."""


def parse(text):
    """The numbers, without zeros at the end."""
    numbers = [int(part) for part in text.split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return numbers


def compare(left, right):
    """-1, 0 or 1."""
    a, b = parse(left), parse(right)
    if a < b:
        return -1
    if a > b:
        return 1
    return 0


def newest(versions):
    best = None
    for version in versions:
        if best is None or compare(version, best) > 0:
            best = version
    return best


def bump(text, part):
    """The next version: `part` 0, 1 or 2 goes up by one, what follows becomes 0."""
    numbers = [int(piece) for piece in text.split(".")]
    numbers[part] += 1
    for index in range(part + 1, len(numbers)):
        numbers[index] = 0
    return ".".join(str(number) for number in numbers)
