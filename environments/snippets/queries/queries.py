"""Query strings of URLs, without escapes."""


def parse_query(text):
    """`a=1&b=2&a=3` as {"a": ["1", "3"], "b": ["2"]}; a name without a value has an empty one."""
    values = {}
    for part in text.lstrip("?").split("&"):
        if not part:
            continue
        name, _, value = part.partition("=")
        values.setdefault(name, []).append(value)
    return values


def build_query(values):
    parts = []
    for name, found in values.items():
        for value in found:
            parts.append(f"{name}={value}" if value else name)
    return "&".join(parts)


def first(text, name, default=None):
    """The first value of a name."""
    found = parse_query(text).get(name)
    return found[0] if found else default
