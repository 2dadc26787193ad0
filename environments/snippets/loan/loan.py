"""Paying back a loan."""


def months(amount, rate, percent=1):
    """Months until it is paid back; the interest is added each month, rounded down."""
    if amount * percent // 100 >= rate:
        raise ValueError("it would never be paid back")
    count = 0
    while amount > 0:
        amount += amount * percent // 100
        amount -= min(rate, amount)
        count += 1
    return count


def interest(amount, rate, percent=1):
    """What is paid beyond the amount."""
    paid = 0
    left = amount
    for _ in range(months(amount, rate, percent)):
        left += left * percent // 100
        part = min(rate, left)
        paid += part
        left -= part
    return paid - amount
