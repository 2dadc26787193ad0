"""Pairings for a tournament."""


def pairings(names, number):
    """Pairs of a round (from 0) of the circle method; an odd player out is paired with None."""
    players = list(names)
    if len(players) % 2 == 1:
        players.append(None)
    rest = players[1:]
    turned = rest[-number % len(rest) :] + rest[: -number % len(rest)] if number else rest
    circle = [players[0]] + turned
    half = len(circle) // 2
    return list(zip(circle[:half], circle[half:][::-1]))


def points(results):
    """Three for a win, one for a draw; results: (home, guest, goals, goals)."""
    table = {}
    for home, guest, scored, conceded in results:
        table.setdefault(home, 0)
        table.setdefault(guest, 0)
        if scored > conceded:
            table[home] += 3
        elif scored < conceded:
            table[guest] += 3
        else:
            table[home] += 1
            table[guest] += 1
    return table
