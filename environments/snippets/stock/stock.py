"""Buying and selling at the right time."""


def best_trade(prices):
    """The largest gain of buying once and selling later; 0 where there is none."""
    best = 0
    lowest = prices[0]
    for price in prices[1:]:
        best = max(best, price - lowest)
        lowest = min(lowest, price)
    return best


def all_rises(prices):
    """The gain of taking every rise."""
    return sum(max(after - before, 0) for before, after in zip(prices, prices[1:]))


def drawdown(prices):
    """The largest fall from a peak, in per cent rounded down."""
    peak = prices[0]
    worst = 0
    for price in prices:
        if price > peak:
            peak = price
        worst = max(worst, (peak - price) * 100 // peak)
    return worst
