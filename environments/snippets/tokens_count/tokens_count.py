"""Limits on how often something may happen."""


class Bucket:
    """Tokens that come back with time."""

    def __init__(self, size=5, per_second=1):
        self.size = size
        self.per_second = per_second
        self.tokens = size
        self.time = 0

    def refill(self, now):
        passed = now - self.time
        self.tokens = min(self.tokens + passed * self.per_second, self.size)
        self.time = now

    def take(self, now, number=1):
        self.refill(now)
        if self.tokens < number:
            return False
        self.tokens -= number
        return True


def wait(bucket, number):
    """Seconds until so many tokens are there."""
    lack = number - bucket.tokens
    return max(lack, 0) / bucket.per_second
