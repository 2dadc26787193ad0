"""From many behaviours to one report, one behaviour at a time.

`Summariser.add` keeps counts and, per measure, one number an episode (for quantiles); never a trajectory. Every share
of success comes with its interval and its n. `Report` is plain data: `asdict` of it is the JSON that the command, the
API and the page share.
"""

from __future__ import annotations

import math
import statistics
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentgym.observe.behaviour import BEHAVIOURS, Behaviour
from agentgym.observe.intervals import Difference, Interval, difference, wilson

MEASURES: Mapping[str, str] = {
    "steps": "steps",
    "calls": "model calls",
    "tokens": "tokens",
    "action_tokens": "sampled tokens",
    "seconds": "seconds",
    "invalid": "invalid calls",
    "repeated": "repeated actions",
    "test_runs": "test runs",
}
"""Numbers of a behaviour whose spread is reported, in words with their unit."""

BINNED = ("steps", "action_tokens", "seconds")
BINS = 5
MOST_FLAGGED = 500


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one measure over all episodes. deviation: sample standard deviation, None for a single episode. Quantiles are
    of the episodes themselves, not interpolated."""

    mean: float
    deviation: float | None
    minimum: float
    p10: float
    median: float
    p90: float
    maximum: float


@dataclass(frozen=True, slots=True)
class Bin:
    """Episodes whose measure lies in [low, high]: equal shares of the graded episodes, so widths differ."""

    low: float
    high: float
    success: Interval


@dataclass(frozen=True, slots=True)
class Conditional:
    """A behaviour, tool or termination. episodes: that showed it, with a verdict or without. success, otherwise:
    P(success | shown) and P(success | not shown); effect: their difference."""

    name: str
    episodes: int
    success: Interval
    otherwise: Interval
    effect: Difference
    occurrences: int = 0


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task. reward_variance: population variance of its graded episodes, None without any. all_same: "all-pass" or
    "all-fail" where two or more graded episodes agree: such a group teaches a group-relative learner nothing."""

    task_id: str
    episodes: int
    success: Interval
    reward_mean: float | None
    reward_variance: float | None
    all_same: str | None


@dataclass(frozen=True, slots=True)
class Suspect:
    """A trajectory with flags: (reason, step or None, evidence) each."""

    id: str
    task_id: str
    reward: float | None
    flags: tuple[tuple[str, int | None, str], ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What a set of trajectories did. unreadable: ids whose stored bytes are damaged."""

    title: str
    episodes: int
    success: Interval
    ungraded: int
    spreads: Mapping[str, Spread]
    bins: Mapping[str, Sequence[Bin]]
    behaviours: Sequence[Conditional]
    tools: Sequence[Conditional]
    terminations: Sequence[Conditional]
    tasks: Sequence[TaskRow]
    shared_outcome: Mapping[str, Interval]
    reasons: Mapping[str, int]
    suspects: Sequence[Suspect]
    versions: Mapping[int, Interval]
    unreadable: Sequence[str] = ()


class _Counts:
    """Episodes with and without a thing, and their successes."""

    def __init__(self) -> None:
        self.episodes: Counter[str] = Counter()
        self.graded: Counter[str] = Counter()
        self.solved: Counter[str] = Counter()
        self.occurrences: Counter[str] = Counter()

    def add(self, names: Mapping[str, int], success: bool | None) -> None:
        for name, times in names.items():
            self.episodes[name] += 1
            self.occurrences[name] += times
            self.graded[name] += success is not None
            self.solved[name] += bool(success)

    def rows(self, graded: int, solved: int, names: Sequence[str] | None = None) -> list[Conditional]:
        wanted = names if names is not None else [name for name, _ in self.episodes.most_common()]
        rows = []
        for name in wanted:
            shown = wilson(self.solved[name], self.graded[name])
            rest = wilson(solved - self.solved[name], graded - self.graded[name])
            rows.append(
                Conditional(name, self.episodes[name], shown, rest, difference(shown, rest), self.occurrences[name])
            )
        return rows


@dataclass(slots=True)
class Summariser:
    """Feed it every behaviour, then ask for the report."""

    title: str
    unreadable: list[str] = field(default_factory=list)
    _success: array[int] = field(default_factory=lambda: array("b"))
    _measures: dict[str, array[float]] = field(default_factory=lambda: {name: array("d") for name in MEASURES})
    _behaviours: _Counts = field(default_factory=_Counts)
    _tools: _Counts = field(default_factory=_Counts)
    _terminations: _Counts = field(default_factory=_Counts)
    _versions: _Counts = field(default_factory=_Counts)
    _rewards: dict[str, list[float | None]] = field(default_factory=dict)
    _reasons: Counter[str] = field(default_factory=Counter)
    _suspects: list[Suspect] = field(default_factory=list)

    def add(self, one: Behaviour) -> None:
        self._success.append(-1 if one.success is None else int(one.success))
        for name, values in self._measures.items():
            values.append(getattr(one, name))
        self._behaviours.add(dict.fromkeys(one.shown, 1), one.success)
        self._tools.add(one.tools, one.success)
        self._terminations.add({one.termination.value: 1}, one.success)
        if one.version is not None:
            self._versions.add({str(one.version): 1}, one.success)
        self._rewards.setdefault(one.task_id, []).append(one.reward)
        self._reasons.update({flag.reason for flag in one.flags})
        if one.flags and len(self._suspects) < MOST_FLAGGED:
            flags = tuple((flag.reason, flag.step, flag.evidence) for flag in one.flags)
            self._suspects.append(Suspect(one.id, one.task_id, one.reward, flags))

    def report(self) -> Report:
        graded = sum(value >= 0 for value in self._success)
        solved = sum(value == 1 for value in self._success)
        tasks = [_task_row(task, rewards) for task, rewards in sorted(self._rewards.items())]
        compared = [row for row in tasks if row.success.trials >= 2]
        suspects = sorted(self._suspects, key=lambda one: (-(one.reward or 0), -len(one.flags)))
        versions = sorted(map(int, self._versions.episodes))
        return Report(
            title=self.title,
            episodes=len(self._success),
            success=wilson(solved, graded),
            ungraded=len(self._success) - graded,
            spreads={name: _spread(values) for name, values in self._measures.items() if values},
            bins={name: self._bins(self._measures[name]) for name in BINNED},
            behaviours=self._behaviours.rows(graded, solved, list(BEHAVIOURS)),
            tools=self._tools.rows(graded, solved),
            terminations=self._terminations.rows(graded, solved),
            tasks=tasks,
            shared_outcome={
                name: wilson(sum(row.all_same == name for row in compared), len(compared))
                for name in ("all-pass", "all-fail")
            },
            reasons=dict(self._reasons.most_common()),
            suspects=suspects,
            versions={
                version: wilson(self._versions.solved[str(version)], self._versions.graded[str(version)])
                for version in versions
            },
            unreadable=tuple(self.unreadable),
        )

    def _bins(self, values: Sequence[float]) -> list[Bin]:
        pairs = sorted((value, one) for value, one in zip(values, self._success, strict=True) if one >= 0)
        bins: list[Bin] = []
        start = 0
        for number in range(1, BINS + 1):
            stop = len(pairs) * number // BINS
            while 0 < stop < len(pairs) and pairs[stop][0] == pairs[stop - 1][0]:  # equal values share a bin
                stop += 1
            if stop > start:
                part = pairs[start:stop]
                bins.append(Bin(part[0][0], part[-1][0], wilson(sum(one for _, one in part), len(part))))
                start = stop
        return bins


def _spread(values: Sequence[float]) -> Spread:
    ordered = sorted(values)

    def quantile(share: float) -> float:
        return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]

    deviation = statistics.stdev(ordered) if len(ordered) > 1 else None
    return Spread(
        statistics.fmean(ordered), deviation, ordered[0], quantile(0.1), quantile(0.5), quantile(0.9), ordered[-1]
    )


def _task_row(task: str, rewards: Sequence[float | None]) -> TaskRow:
    known = [reward for reward in rewards if reward is not None]
    solved = sum(reward >= 1 for reward in known)
    same = None
    if len(known) >= 2 and solved in (0, len(known)):
        same = "all-pass" if solved else "all-fail"
    return TaskRow(
        task,
        len(rewards),
        wilson(solved, len(known)),
        statistics.fmean(known) if known else None,
        statistics.pvariance(known) if known else None,
        same,
    )
