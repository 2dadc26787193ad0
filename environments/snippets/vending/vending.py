"""A machine that sells drinks."""


class Machine:
    def __init__(self, prices, stock=1):
        self.prices = prices
        self.stock = dict.fromkeys(prices, stock)
        self.credit = 0
        self.earned = 0

    def insert(self, cents):
        if cents not in (10, 20, 50, 100, 200):
            return False
        self.credit += cents
        return True

    def buy(self, drink):
        """The change, or None where it cannot be sold."""
        price = self.prices[drink]
        if self.stock[drink] < 1 or self.credit < price:
            return None
        self.stock[drink] -= 1
        self.earned += price
        change = self.credit - price
        self.credit = 0
        return change

    def cancel(self):
        cents, self.credit = self.credit, 0
        return cents
