"""Which set a module's bugs belong to: families for training and held-out ones, apart by source module.

    cold-start   bugs whose gold solutions a policy may imitate before it learns by itself
    train        bugs to learn from by reinforcement
    instances    held out: other bugs of the very modules of `train`
    modules      held out: bugs of modules that no other set ever sees

The set of a module follows from its name alone. So no seed and no count moves it to the other side, and a later, larger
family keeps what an earlier one held out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar, get_args

from agentgym.tasks.model import TaskError
from agentgym.tasks.mutation.bases import Base

SetName = Literal["cold-start", "train", "instances", "modules"]
Share = Literal["cold-start", "train", "modules"]
SETS: tuple[SetName, ...] = get_args(SetName)
HELD_OUT: frozenset[SetName] = frozenset({"instances", "modules"})
DEFAULT_COUNTS: Mapping[SetName, int] = {"cold-start": 320, "train": 400, "instances": 200, "modules": 200}

HELD_OUT_SHARE = 5
"""One module in this many is held out, with all its bugs."""
COLD_START_SHARE = 3
"""Of the others, one in this many is for imitation only."""

T = TypeVar("T")


def share_of(base: Base, module: str) -> Share:
    """The modules' own share; the bugs of `train` are later dealt to `train` and `instances`."""
    digest = hashlib.sha256(f"{base.name}/{module}".encode()).digest()
    if digest[0] % HELD_OUT_SHARE == 0:
        return "modules"
    return "cold-start" if digest[1] % COLD_START_SHARE == 0 else "train"


def split_of(base: Base, module: str) -> Literal["train", "held-out"]:
    """The split of a family that is not dealt into sets."""
    return "held-out" if share_of(base, module) == "modules" else "train"


def parse_counts(text: str) -> dict[SetName, int]:
    """ "train=400,modules=200" as counts; "default" stands for `DEFAULT_COUNTS`. Raises TaskError."""
    if text == "default":
        return dict(DEFAULT_COUNTS)
    counts: dict[SetName, int] = {}
    for part in text.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        if name not in SETS or not number.isdigit():
            raise TaskError(
                f"no set of bugs is described by {part!r}", hint=f"NAME=COUNT with NAME one of {', '.join(SETS)}"
            )
        counts[name] = int(number)
    return counts


def deal(found: Sequence[T], held_out: int) -> tuple[list[T], list[T]]:
    """(kept, held out): `held_out` of them, evenly spread over their order, so that every module gives its part."""
    kept, out = list[T](), list[T]()
    for index, one in enumerate(found):
        taken = (index + 1) * held_out // len(found) > index * held_out // len(found)
        (out if taken else kept).append(one)
    return kept, out
