"""Paying an amount with coins."""


def fewest(amount, coins):
    """The fewest coins that make up the amount, None where they cannot."""
    best = [0] + [None] * amount
    for target in range(1, amount + 1):
        for coin in coins:
            rest = target - coin
            if rest >= 0 and best[rest] is not None:
                if best[target] is None or best[rest] + 1 < best[target]:
                    best[target] = best[rest] + 1
    return best[amount]


def ways(amount, coins):
    """In how many ways the amount can be paid; the order of the coins does not count."""
    counts = [1] + [0] * amount
    for coin in coins:
        for target in range(coin, amount + 1):
            counts[target] += counts[target - coin]
    return counts[amount]
