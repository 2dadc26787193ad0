"""Notes and coins for an amount."""

COINS = [200, 100, 50, 20, 10, 5, 2, 1]


def change(cents, coins=COINS):
    """{coin: how many}, the largest first."""
    result = {}
    for coin in coins:
        number, cents = divmod(cents, coin)
        if number:
            result[coin] = number
    return result


def price_text(cents, currency="EUR"):
    sign = "-" if cents < 0 else ""
    cents = abs(cents)
    return f"{sign}{cents // 100}.{cents % 100:02d} {currency}"


def with_tax(cents, percent=19):
    """Rounded to the nearest cent."""
    return (cents * (100 + percent) + 50) // 100
