"""How much one engine is asked to hold at once, and what one sandbox takes of it.

The defaults follow from the engine's machine: memory is committed by limits (a sandbox may use all it was promised, and
there is no swap), CPUs are promised many times over (agents wait for their policy most of the time), and starts in
flight are few, since a start is work for the engine's CPUs and a flood of them is what brings engines down.
`AGENTGYM_CAPACITY="live=40,memory_mb=16000"` replaces any of the numbers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from agentgym.errors import InputError
from agentgym.sandbox.protocol import Limits

VARIABLE = "AGENTGYM_CAPACITY"

_MEMORY_SHARE = 0.9  # the rest is for the engine, this process and the page cache
_CPU_OVERCOMMIT = 16
_LIVE_PER_CPU = 256  # an engine keeps a helper process and a few MB for each


@dataclass(frozen=True, slots=True)
class Cost:
    """What one sandbox commits."""

    memory_mb: int
    cpus: float

    @classmethod
    def of(cls, limits: Limits) -> Cost:
        return cls(limits.memory_mb, limits.cpus)


@dataclass(frozen=True, slots=True)
class Capacity:
    """live: sandboxes at once, warm ones included. memory_mb, cpus: sums of their limits. starting: starts in flight."""

    live: int
    memory_mb: int
    cpus: float
    starting: int

    @classmethod
    def of_machine(cls, cpus: int, memory_bytes: int) -> Capacity:
        """What a machine with these resources holds, unless the environment says otherwise."""
        memory_mb = int(_MEMORY_SHARE * memory_bytes) >> 20
        return from_environment(cls(_LIVE_PER_CPU * cpus, memory_mb, float(_CPU_OVERCOMMIT * cpus), max(2, cpus)))

    @classmethod
    def of_this_machine(cls) -> Capacity:
        pages = os.sysconf("SC_PHYS_PAGES")
        return cls.of_machine(len(os.sched_getaffinity(0)), pages * os.sysconf("SC_PAGE_SIZE"))

    @classmethod
    def of_a_cluster(cls) -> Capacity:
        """What one process asks of a cluster: the scheduler and the quota say what fits, so only numbers are bounded here."""
        return from_environment(cls(live=1024, memory_mb=1 << 40, cpus=1e6, starting=16))

    def clip(self, cost: Cost) -> Cost:
        """A sandbox larger than everything runs alone rather than never."""
        return Cost(min(cost.memory_mb, self.memory_mb), min(cost.cpus, self.cpus))

    def holds(self, limits: Limits) -> int:
        """How many sandboxes with these limits fit at once."""
        by_memory = self.memory_mb // max(1, limits.memory_mb)
        by_cpus = int(self.cpus / limits.cpus) if limits.cpus else self.live
        return max(1, min(self.live, by_memory, by_cpus))


def from_environment(default: Capacity, environment: Mapping[str, str] = os.environ) -> Capacity:
    """`default` with the numbers that `AGENTGYM_CAPACITY` gives; InputError names the part that cannot be used."""
    kinds = {field.name: float if field.name == "cpus" else int for field in fields(Capacity)}
    given: dict[str, float] = {}
    for part in filter(None, (word.strip() for word in environment.get(VARIABLE, "").split(","))):
        name, _, value = part.partition("=")
        try:
            given[name] = kinds[name](value)
            if given[name] <= 0:
                raise ValueError
        except (KeyError, ValueError):
            raise InputError(
                f"{VARIABLE}: cannot use {part!r}",
                hint=f"give positive numbers for any of {', '.join(kinds)}, e.g. live=40,memory_mb=16000",
            ) from None
    return replace(default, **given)  # pyright: ignore[reportArgumentType]
