"""The total of a shopping list."""


def total(items):
    """items: (name, price in cents, quantity)."""
    return sum(price * quantity for _, price, quantity in items)


def discount(cents, percent):
    """The price with a discount, rounded down."""
    if percent < 0 or percent > 100:
        raise ValueError("no such discount")
    return cents - cents * percent // 100


def shipping(cents, free_from=5000, fee=490):
    if cents >= free_from:
        return 0
    return fee
