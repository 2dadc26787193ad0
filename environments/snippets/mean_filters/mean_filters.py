"""Numbers without outliers."""


def clipped(values, low, high):
    return [min(max(value, low), high) for value in values]


def trimmed_mean(values, cut=1):
    """The mean without the `cut` smallest and the `cut` largest values."""
    ordered = sorted(values)
    kept = ordered[cut : len(ordered) - cut]
    if not kept:
        raise ValueError("nothing is left")
    return sum(kept) / len(kept)


def outliers(values, factor=2):
    """Values further from the mean than `factor` times the mean distance."""
    mean = sum(values) / len(values)
    spread = sum(abs(value - mean) for value in values) / len(values)
    return [value for value in values if abs(value - mean) > factor * spread]


def normalised(values):
    low, high = min(values), max(values)
    if low == high:
        return [0.0 for _ in values]
    return [(value - low) / (high - low) for value in values]
