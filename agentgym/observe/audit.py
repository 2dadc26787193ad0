"""A reading list: N episodes that succeeded and N that did not, drawn evenly, to be read before any number is believed.

Drawn by reservoir over a stream with a fixed seed: the same store and query give the same list. Flagged and unflagged
episodes have the same chance; the flags are shown beside them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from agentgym.observe.behaviour import Behaviour


@dataclass(frozen=True, slots=True)
class Audit:
    """positive: reward of at least 1. negative: a verdict below that."""

    positive: tuple[Behaviour, ...]
    negative: tuple[Behaviour, ...]


def audit(behaviours: Iterable[Behaviour], count: int, *, seed: int = 0) -> Audit:
    """Up to `count` of each."""
    chance = random.Random(seed)
    drawn: dict[bool, list[Behaviour]] = {True: [], False: []}
    seen = {True: 0, False: 0}
    for one in behaviours:
        if one.success is None:
            continue
        seen[one.success] += 1
        kept = drawn[one.success]
        if len(kept) < count:
            kept.append(one)
        elif (place := chance.randrange(seen[one.success])) < count:
            kept[place] = one
    return Audit(tuple(drawn[True]), tuple(drawn[False]))
