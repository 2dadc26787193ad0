"""A robot on a grid."""

TURNS = "NESW"
STEPS = {"N": (0, 1), "E": (1, 0), "S": (0, -1), "W": (-1, 0)}


class Robot:
    def __init__(self, x=0, y=0, facing="N"):
        self.x = x
        self.y = y
        self.facing = facing

    def turn(self, quarters):
        """Clockwise; negative for the other way."""
        self.facing = TURNS[(TURNS.index(self.facing) + quarters) % 4]

    def walk(self, steps=1):
        dx, dy = STEPS[self.facing]
        self.x += dx * steps
        self.y += dy * steps

    def obey(self, commands):
        for command in commands:
            if command == "R":
                self.turn(1)
            elif command == "L":
                self.turn(-1)
            elif command == "F":
                self.walk()

    def distance(self):
        return abs(self.x) + abs(self.y)
