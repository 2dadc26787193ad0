"""Settings as lines of "name = value"."""


def parse(text):
    """Comments and empty lines are left out; a later value wins."""
    settings = {}
    for line in text.split("\n"):
        line = line.split("#")[0].strip()
        if not line:
            continue
        name, _, value = line.partition("=")
        settings[name.strip()] = value.strip()
    return settings


def flag(settings, name, default=False):
    value = settings.get(name)
    if value is None:
        return default
    return value.lower() in ("yes", "true", "on", "1")


def number(settings, name, low=0, high=100):
    """The number, kept between the limits."""
    return max(low, min(high, int(settings[name])))
