"""Goods on stock."""


class Inventory:
    def __init__(self):
        self._stock = {}

    def add(self, name, count=1):
        self._stock[name] = self._stock.get(name, 0) + count

    def remove(self, name, count=1):
        """Take goods out; KeyError where there are not enough."""
        left = self._stock.get(name, 0) - count
        if left < 0:
            raise KeyError(name)
        if left == 0:
            del self._stock[name]
        else:
            self._stock[name] = left

    def count(self, name):
        return self._stock.get(name, 0)

    def running_out(self, below):
        """Names of goods of which fewer than `below` are left, sorted."""
        return sorted(name for name, count in self._stock.items() if count < below)

    def most_common(self):
        """The goods of which there are most; by name where several are equal."""
        ordered = sorted(self._stock.items(), key=lambda item: (-item[1], item[0]))
        return ordered[0][0] if ordered else None
