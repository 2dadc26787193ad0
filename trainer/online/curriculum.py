"""Which task next, and how many turns it gets.

A task teaches where it is solved sometimes. Each task's pass rate is taken over its last `band_window` verdicts; tasks whose
rate lies in [band_low, band_high], and those not tried often enough to know, are drawn with weight 1, all others with
`outside_weight`, so that what has become possible is noticed. Draws are seeded by the prompt's number: the same history
gives the same prompts.

The horizon starts at `horizon_start` turns and doubles, up to the profile's own, each time the success rate of the last
`horizon_window` episodes under it reaches `horizon_success`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from agentgym.tasks import Task
from trainer.online.config import CurriculumRules
from trainer.online.errors import RolloutsStalled


class Curriculum:
    """horizon: turns allowed now."""

    def __init__(self, tasks: Sequence[Task], rules: CurriculumRules, *, max_turns: int, seed: int) -> None:
        self.rules = rules
        self.tasks = {task.digest: task for task in tasks}
        self.max_turns = max_turns
        self.horizon = min(rules.horizon_start or max_turns, max_turns)
        self._seed = seed
        self._verdicts: dict[str, deque[bool]] = {digest: deque(maxlen=rules.band_window) for digest in self.tasks}
        self._under_horizon: deque[bool] = deque(maxlen=rules.horizon_window)

    def draw(self, prompt: int) -> Task:
        """The task of the prompt with this number. Raises RolloutsStalled where no task is left."""
        if not self.tasks:
            raise RolloutsStalled("no task is left whose image builds", hint="agentgym tasks validate")
        weights = np.array([self._weight(digest) for digest in self.tasks])
        if not weights.any():
            weights[:] = 1.0
        generator = np.random.default_rng([self._seed, prompt])
        return list(self.tasks.values())[generator.choice(len(weights), p=weights / weights.sum())]

    def record(self, task_digest: str, reward: float | None, *, turns: int | None = None) -> None:
        """A verdict. turns: the horizon it was reached under; None: not known, as for an earlier call's."""
        if reward is None or task_digest not in self._verdicts:
            return
        self._verdicts[task_digest].append(reward >= 1.0)
        if turns != self.horizon or self.horizon >= self.max_turns:
            return
        self._under_horizon.append(reward >= 1.0)
        full = len(self._under_horizon) == self._under_horizon.maxlen
        if full and np.mean(self._under_horizon) >= self.rules.horizon_success:
            self.horizon = min(2 * self.horizon, self.max_turns)
            self._under_horizon.clear()

    def leave_out(self, task_digest: str) -> None:
        """Its image does not build: never drawn again."""
        self.tasks.pop(task_digest, None)

    def pass_rate(self, task_digest: str) -> float | None:
        """Over the window; None with too few verdicts to know."""
        found = self._verdicts[task_digest]
        return float(np.mean(found)) if len(found) >= self.rules.band_minimum else None

    def shares(self) -> dict[str, float]:
        """How the tasks lie: the fraction below, inside and above the band, and of those not known yet."""
        rates = [self.pass_rate(digest) for digest in self.tasks]
        known = np.array([rate for rate in rates if rate is not None])
        count = max(len(rates), 1)
        below, above = int((known < self.rules.band_low).sum()), int((known > self.rules.band_high).sum())
        return {
            "tasks_below_band": below / count,
            "tasks_in_band": (len(known) - below - above) / count,
            "tasks_above_band": above / count,
            "tasks_unknown": (len(rates) - len(known)) / count,
            "horizon": float(self.horizon),
        }

    def _weight(self, digest: str) -> float:
        rate = self.pass_rate(digest)
        inside = rate is None or self.rules.band_low <= rate <= self.rules.band_high
        return 1.0 if inside else self.rules.outside_weight
