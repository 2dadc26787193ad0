"""A cache that forgets what was not used for longest."""


class Cache:
    def __init__(self, size=2):
        self.size = size
        self.values = {}
        self.hits = 0
        self.misses = 0

    def get(self, key, default=None):
        if key not in self.values:
            self.misses += 1
            return default
        self.hits += 1
        self.values[key] = self.values.pop(key)
        return self.values[key]

    def put(self, key, value):
        if key in self.values:
            self.values.pop(key)
        elif len(self.values) >= self.size:
            oldest = next(iter(self.values))
            self.values.pop(oldest)
        self.values[key] = value
