"""Words within words."""


def rotations(word):
    return [word[place:] + word[:place] for place in range(len(word))]


def is_rotation(first, second):
    return len(first) == len(second) and second in first + first


def common_prefix(words):
    prefix = words[0]
    for word in words[1:]:
        while not word.startswith(prefix):
            prefix = prefix[:-1]
    return prefix


def occurrences(text, part):
    """Places where the part begins, also where it overlaps itself."""
    found = []
    place = text.find(part)
    while place >= 0:
        found.append(place)
        place = text.find(part, place + 1)
    return found
