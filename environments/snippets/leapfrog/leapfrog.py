"""Moves on a row of lily pads."""


def can_cross(pads, reach):
    """May a frog get from the first to the last pad (True: is there) with jumps of at most `reach`?"""
    gap = 0
    for pad in pads[1:]:
        gap += 1
        if gap > reach:
            return False
        if pad:
            gap = 0
    return gap == 0


def fewest_jumps(distance, reach):
    full, rest = divmod(distance, reach)
    return full + (1 if rest else 0)
