"""Addresses such as 192.168.0.1."""


def to_number(text):
    parts = [int(part) for part in text.split(".")]
    if len(parts) != 4 or any(part < 0 or part > 255 for part in parts):
        raise ValueError(f"no address: {text}")
    number = 0
    for part in parts:
        number = number * 256 + part
    return number


def to_text(number):
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def same_network(first, second, bits=24):
    shift = 32 - bits
    return to_number(first) >> shift == to_number(second) >> shift
