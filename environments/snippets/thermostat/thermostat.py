"""A heating with two thresholds."""


class Thermostat:
    def __init__(self, low=18, high=21):
        if low >= high:
            raise ValueError("low must be below high")
        self.low = low
        self.high = high
        self.on = False
        self.switches = 0

    def read(self, degrees):
        """Is the heating on after this reading?"""
        before = self.on
        if degrees < self.low:
            self.on = True
        elif degrees > self.high:
            self.on = False
        if self.on != before:
            self.switches += 1
        return self.on
