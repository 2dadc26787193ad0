"""Lap times, in seconds."""


class Laps:
    """The laps of one run, in the order they were taken."""

    def __init__(self):
        self._laps = []

    def add(self, seconds):
        self._laps.append(seconds)

    @property
    def total(self):
        return sum(self._laps)

    @property
    def best(self):
        """The fastest lap, None before the first."""
        return min(self._laps, default=None)
