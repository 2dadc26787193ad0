"""Bringing lists together."""


def interleave(left, right):
    """One of each in turn, then what is left of the longer one."""
    out = []
    for place in range(max(len(left), len(right))):
        if place < len(left):
            out.append(left[place])
        if place < len(right):
            out.append(right[place])
    return out


def deal(cards, players):
    """Each player's cards, dealt one by one."""
    hands = [[] for _ in range(players)]
    for place, card in enumerate(cards):
        hands[place % players].append(card)
    return hands


def cut(cards, place):
    return cards[place:] + cards[:place]


def shuffle(cards):
    """A perfect shuffle: the upper half first."""
    middle = (len(cards) + 1) // 2
    return interleave(cards[:middle], cards[middle:])
