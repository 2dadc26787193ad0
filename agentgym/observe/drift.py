"""What changed between two sets of trajectories: two runs, or two ranges of policy versions.

Shares are compared by Newcombe's interval, means by Welch's (normal approximation, so small sets read as unclear),
the mix of tools and terminations by the Jensen-Shannon divergence in bits (0: the same mix, 1: nothing in common).
A line is `clear` where its interval leaves zero out; with twenty lines one is expected to do so by chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentgym.observe.intervals import Difference, Z, difference, wilson
from agentgym.observe.summary import MEASURES, Conditional, Report


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that may have moved. before, after: its value in each set; by: after − before."""

    name: str
    before: float | None
    after: float | None
    by: Difference
    clear: bool


@dataclass(frozen=True, slots=True)
class Drift:
    """From `before` to `after` (titles). success, shares: P(success), and how many episodes show each behaviour.
    means: of each measure. mixes: divergences in bits. tasks: those present in both, by how far they moved."""

    before: str
    after: str
    success: Change
    shares: Sequence[Change]
    means: Sequence[Change]
    mixes: Mapping[str, float]
    tasks: Sequence[Change]


def drift(before: Report, after: Report) -> Drift:
    olds, news = {row.name: row for row in before.behaviours}, {row.name: row for row in after.behaviours}
    tasks = {row.task_id: row for row in before.tasks}
    moved = [
        _change(
            row.task_id,
            difference(row.success, tasks[row.task_id].success),
            tasks[row.task_id].success.share,
            row.success.share,
        )
        for row in after.tasks
        if row.task_id in tasks
    ]
    return Drift(
        before=before.title,
        after=after.title,
        success=_change(
            "success", difference(after.success, before.success), before.success.share, after.success.share
        ),
        shares=[
            _share(name, olds[name].episodes, before.episodes, news[name].episodes, after.episodes) for name in news
        ],
        means=[_mean(name, before, after) for name in MEASURES if name in before.spreads and name in after.spreads],
        mixes={
            "tools": divergence(_mix(before.tools), _mix(after.tools)),
            "terminations": divergence(_mix(before.terminations), _mix(after.terminations)),
        },
        tasks=sorted(moved, key=lambda change: -abs(change.by.value or 0)),
    )


def divergence(first: Mapping[str, int], second: Mapping[str, int]) -> float:
    """Jensen-Shannon, in bits; 0 where either is empty."""
    a, b = sum(first.values()), sum(second.values())
    if not a or not b:
        return 0.0
    total = 0.0
    for name in first.keys() | second.keys():
        p, q = first.get(name, 0) / a, second.get(name, 0) / b
        middle = (p + q) / 2
        total += sum(share / 2 * math.log2(share / middle) for share in (p, q) if share)
    return max(0.0, total)


def _mix(rows: Sequence[Conditional]) -> dict[str, int]:
    return {row.name: row.occurrences for row in rows}


def _share(name: str, old: int, olds: int, new: int, news: int) -> Change:
    first, second = wilson(old, olds), wilson(new, news)
    return _change(name, difference(second, first), first.share, second.share)


def _mean(name: str, before: Report, after: Report) -> Change:
    old, new = before.spreads[name], after.spreads[name]
    by = new.mean - old.mean
    if old.deviation is None or new.deviation is None:
        return _change(name, Difference(by, None, None), old.mean, new.mean)
    half = Z * math.hypot(old.deviation / math.sqrt(before.episodes), new.deviation / math.sqrt(after.episodes))
    return _change(name, Difference(by, by - half, by + half), old.mean, new.mean)


def _change(name: str, by: Difference, before: float | None, after: float | None) -> Change:
    return Change(name, before, after, by, by.is_clear)
