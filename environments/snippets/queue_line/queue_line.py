"""People who wait in line; some may go first."""


class Line:
    def __init__(self):
        self.people = []
        self.served = 0

    def join(self, name, priority=False):
        """Returns the place in line, 1 for the next one."""
        if priority:
            place = sum(1 for _, first in self.people if first)
            self.people.insert(place, (name, True))
            return place + 1
        self.people.append((name, False))
        return len(self.people)

    def serve(self):
        if not self.people:
            return None
        self.served += 1
        name, _ = self.people.pop(0)
        return name

    def wait(self, name, minutes=5):
        """Minutes until it is this person's turn."""
        names = [person for person, _ in self.people]
        return names.index(name) * minutes
