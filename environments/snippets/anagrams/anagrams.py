"""Words made of the same letters."""


def key(word):
    return "".join(sorted(word.lower()))


def are_anagrams(first, second):
    if first.lower() == second.lower():
        return False
    return key(first) == key(second)


def groups(words):
    """Lists of at least two anagrams, in order of their first word."""
    found = {}
    for word in words:
        found.setdefault(key(word), []).append(word)
    return [group for group in found.values() if len(group) > 1]
