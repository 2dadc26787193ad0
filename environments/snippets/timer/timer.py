"""A countdown."""


class Timer:
    def __init__(self, seconds):
        if seconds <= 0:
            raise ValueError("time must pass")
        self.left = seconds
        self.paused = False
        self.rang = 0

    def tick(self, seconds=1):
        """Returns True where the time is over with this tick."""
        if self.paused or self.left == 0:
            return False
        self.left = max(self.left - seconds, 0)
        if self.left == 0:
            self.rang += 1
            return True
        return False

    def pause(self):
        self.paused = not self.paused

    def show(self):
        return f"{self.left // 60}:{self.left % 60:02d}"
