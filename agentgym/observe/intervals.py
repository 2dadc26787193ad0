"""How sure a share is: Wilson's score interval, and Newcombe's for the difference of two shares.

Both hold for few trials and for shares of 0 and 1, where the textbook interval collapses (Wilson 1927; Newcombe 1998,
method 10). They take episodes as independent; rollouts of one task are not quite, so read them as lower bounds of the
doubt. z = 1.96 throughout: 95 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Interval:
    """successes of trials, their share and its bounds. All None where there were no trials."""

    successes: int
    trials: int
    share: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.share is None or self.low is None or self.high is None:
            return "—"
        return f"{self.share:.0%} ({self.low:.0%}–{self.high:.0%}, n = {self.trials})"


@dataclass(frozen=True, slots=True)
class Difference:
    """A share less another, with bounds. None where either had no trials."""

    value: float | None
    low: float | None
    high: float | None

    @property
    def is_clear(self) -> bool:
        """The interval leaves zero out."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def wilson(successes: int, trials: int) -> Interval:
    if trials == 0:
        return Interval(0, 0, None, None, None)
    share = successes / trials
    scale = 1 + Z * Z / trials
    centre = (share + Z * Z / (2 * trials)) / scale
    half = Z / scale * math.sqrt(share * (1 - share) / trials + Z * Z / (4 * trials * trials))
    # At the ends the bound is 0 or 1 exactly; rounding may miss it by an ulp, on either side of the share.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return Interval(successes, trials, share, low, high)


def difference(first: Interval, second: Interval) -> Difference:
    """first − second."""
    if first.share is None or second.share is None:
        return Difference(None, None, None)
    assert first.low is not None
    assert first.high is not None
    assert second.low is not None
    assert second.high is not None
    value = first.share - second.share
    below = math.hypot(first.share - first.low, second.high - second.share)
    above = math.hypot(first.high - first.share, second.share - second.low)
    return Difference(value, value - below, value + above)
