"""Trees as (value, [children])."""


def total(tree):
    value, children = tree
    return value + sum(total(child) for child in children)


def height(tree):
    """1 for a lone leaf."""
    _, children = tree
    return 1 + max((height(child) for child in children), default=0)


def leaves(tree):
    value, children = tree
    if not children:
        return [value]
    found = []
    for child in children:
        found += leaves(child)
    return found


def path_to(tree, wanted):
    """Values from the root to the wanted one; empty where it is not there."""
    value, children = tree
    if value == wanted:
        return [value]
    for child in children:
        path = path_to(child, wanted)
        if path:
            return [value] + path
    return []
