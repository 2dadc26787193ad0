"""Parcels and vans."""


def load(parcels, limit):
    """Vans filled in order; a parcel that no longer fits begins a new van."""
    vans = []
    room = 0
    for weight in parcels:
        if weight > limit:
            raise ValueError(f"{weight} is too heavy")
        if weight > room:
            vans.append([])
            room = limit
        vans[-1].append(weight)
        room -= weight
    return vans


def zone(kilometres):
    """1 up to 10, 2 up to 50, else 3."""
    if kilometres <= 10:
        return 1
    return 2 if kilometres <= 50 else 3


def cost(weight, kilometres, express=False):
    cents = 300 + 50 * weight * zone(kilometres)
    return cents * 2 if express else cents
