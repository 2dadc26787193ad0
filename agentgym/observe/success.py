"""Success rates: pass@1, unbiased pass@k, their intervals, and the paired comparison of two policies.

    pass@k      mean over tasks of 1 − C(n−c, k)/C(n, k)                                        (Chen et al. 2021, eq. 1)
    interval    Wilson's, with the number of independent observations that the spread over tasks leaves:
                n_eff = p(1−p)/SE², between the number of tasks and the number of episodes      (Wilson 1927; Kish 1965)
    compare     the difference of per-task pass rates on the tasks both tried; percentile bootstrap over tasks

Tasks weigh the same, whatever their number of episodes. Episodes without a verdict are no zeros: they are left out and
counted. Wilson's interval is used because at 0 of n and n of n it says what is known, where a bootstrap claims certainty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import comb, inf, sqrt

import numpy as np

from agentgym.store import TrajectorySummary

Z95 = 1.959963984540054
DRAWS = 10_000


@dataclass(slots=True)
class Counts:
    """Of one task. solved of graded episodes; ungraded: without a verdict."""

    solved: int = 0
    graded: int = 0
    ungraded: int = 0

    @property
    def rate(self) -> float:
        return self.solved / self.graded


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Episodes by task id."""

    counts: Mapping[str, Counts] = field(default_factory=dict)

    @staticmethod
    def of(summaries: Iterable[TrajectorySummary]) -> Outcomes:
        counts: dict[str, Counts] = {}
        for one in summaries:
            found = counts.setdefault(one.task_id, Counts())
            if one.reward is None:
                found.ungraded += 1
            else:
                found.graded += 1
                found.solved += one.reward == 1.0
        return Outcomes(dict(sorted(counts.items())))

    @property
    def graded(self) -> dict[str, Counts]:
        """Tasks with at least one verdict."""
        return {task: found for task, found in self.counts.items() if found.graded}

    def only(self, tasks: Iterable[str]) -> Outcomes:
        wanted = set(tasks)
        return Outcomes({task: found for task, found in self.counts.items() if task in wanted})


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over tasks with its 95 % interval."""

    value: float
    low: float
    high: float
    tasks: int
    episodes: int


def pass_at_k(outcomes: Outcomes, k: int) -> Estimate | None:
    """pass@k over the tasks with at least k verdicts; None where there is no such task."""
    found = [one for one in outcomes.graded.values() if one.graded >= k]
    if not found:
        return None
    rates = [1 - comb(one.graded - one.solved, k) / comb(one.graded, k) for one in found]
    episodes = sum(one.graded for one in found)
    mean = float(np.mean(rates))
    error = float(np.std(rates, ddof=1)) / sqrt(len(rates)) if len(rates) > 1 else 0.0
    spread = mean * (1 - mean)
    effective = spread / error**2 if error else (inf if spread else 0.0)
    low, high = wilson(mean, min(max(effective, len(rates)), episodes))
    return Estimate(mean, low, high, len(rates), episodes)


def wilson(rate: float, count: float, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval of a proportion over `count` observations."""
    middle = (rate + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * sqrt(rate * (1 - rate) / count + z**2 / (4 * count**2))
    return max(middle - half, 0.0), min(middle + half, 1.0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """B against A on the tasks both tried. low, high: 95 % interval of the difference. p_value: two-sided, bootstrap.

    better, worse: tasks on which B's rate is higher, lower.
    """

    rate_a: float
    rate_b: float
    difference: float
    low: float
    high: float
    p_value: float
    tasks: int
    better: int
    worse: int


def compare(a: Outcomes, b: Outcomes, *, seed: int = 0) -> Comparison | None:
    """Paired by task; None where no task was tried by both."""
    common = sorted(a.graded.keys() & b.graded.keys())
    if not common:
        return None
    rates_a = np.array([a.counts[task].rate for task in common])
    rates_b = np.array([b.counts[task].rate for task in common])
    gain = rates_b - rates_a
    generator = np.random.default_rng(seed)
    draws = np.array([gain[generator.integers(len(gain), size=len(gain))].mean() for _ in range(DRAWS)])
    low, high = np.quantile(draws, [0.025, 0.975])
    tail = min((draws <= 0).mean(), (draws >= 0).mean())
    return Comparison(
        rate_a=float(rates_a.mean()),
        rate_b=float(rates_b.mean()),
        difference=float(gain.mean()),
        low=float(low),
        high=float(high),
        p_value=float(min(2 * tail, 1.0)),
        tasks=len(common),
        better=int((gain > 0).sum()),
        worse=int((gain < 0).sum()),
    )
