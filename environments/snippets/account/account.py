"""An account with a limit."""


class Account:
    def __init__(self, limit=0):
        """limit: how far below zero the balance may go."""
        self.balance = 0
        self.limit = limit
        self.history = []

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("deposit something")
        self.balance += amount
        self.history.append(("deposit", amount))

    def withdraw(self, amount):
        """True where the money was paid out."""
        if amount <= 0:
            raise ValueError("withdraw something")
        if self.balance - amount < -self.limit:
            return False
        self.balance -= amount
        self.history.append(("withdraw", amount))
        return True

    def transfer(self, other, amount):
        if not self.withdraw(amount):
            return False
        other.deposit(amount)
        return True

    def total_in(self):
        return sum(amount for kind, amount in self.history if kind == "deposit")
