"""Gears of a bicycle."""


def ratio(front, rear):
    return round(front / rear, 2)


def distance(front, rear, turns, wheel=2.1):
    """Metres for some turns of the pedals."""
    return round(front / rear * turns * wheel, 1)


def ordered(fronts, rears):
    """All gears, the easiest first."""
    gears = [(front, rear) for front in fronts for rear in rears]
    return sorted(gears, key=lambda gear: gear[0] / gear[1])


def closest(fronts, rears, wanted):
    """The gear whose ratio is nearest to the wanted one."""
    return min(ordered(fronts, rears), key=lambda gear: abs(gear[0] / gear[1] - wanted))
