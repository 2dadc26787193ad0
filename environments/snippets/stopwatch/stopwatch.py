"""Laps of a race."""


class Stopwatch:
    def __init__(self):
        self.marks = []

    def mark(self, seconds):
        if self.marks and seconds <= self.marks[-1]:
            raise ValueError("time does not run backwards")
        self.marks.append(seconds)

    def laps(self):
        before = [0] + self.marks[:-1]
        return [mark - start for start, mark in zip(before, self.marks)]

    def best(self):
        return min(self.laps(), default=None)

    def faster(self):
        """How many laps were faster than the one before."""
        laps = self.laps()
        return sum(1 for one, two in zip(laps, laps[1:]) if two < one)
