"""A lift that moves between floors."""


class Elevator:
    def __init__(self, floors):
        self.floors = floors
        self.floor = 0
        self.moved = 0

    def go(self, floor):
        if floor < 0 or floor >= self.floors:
            raise ValueError(f"no floor {floor}")
        self.moved += abs(floor - self.floor)
        self.floor = floor

    def visit(self, calls):
        """The order in which the calls are served: upwards first, then down again."""
        above = sorted(call for call in calls if call >= self.floor)
        below = sorted((call for call in calls if call < self.floor), reverse=True)
        for call in above + below:
            self.go(call)
        return above + below
