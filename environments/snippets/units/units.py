"""Sizes of files in words."""

UNITS = ["B", "KB", "MB", "GB"]


def show(size):
    """The size in the largest unit of which there is at least one."""
    unit = 0
    while size >= 1024 and unit < len(UNITS) - 1:
        size /= 1024
        unit += 1
    if unit == 0:
        return f"{size} B"
    return f"{size:.1f} {UNITS[unit]}"


def parse(text):
    """Bytes of a text such as "1.5 KB"; bytes where no unit is named."""
    number, _, unit = text.strip().partition(" ")
    power = UNITS.index(unit.upper()) if unit else 0
    return int(float(number) * 1024**power)
