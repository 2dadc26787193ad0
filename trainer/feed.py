"""The evidence of a run, oldest first: read from the store once, handed out in batches, each trajectory used at most
once.

Staleness is judged when a batch is taken, against the version the learner has by then. Rules that compare rollouts of
one prompt get whole groups; a rollout without a companion is left out and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from agentgym.store import Store, TrajectoryFilter
from trainer.config import TrainConfig
from trainer.credit import Credit
from trainer.evidence import Drop, Evidence, freshness, judge


class Feed:
    """`waiting` holds what was judged fit and is not used yet; `drops` counts everything left out, by reason."""

    def __init__(self, config: TrainConfig, credit: Credit, *, version: int, used: Collection[str] = ()) -> None:
        self.config = config
        self.grouped = credit.needs_groups
        self.mixed = credit.needs_mixed_groups
        self.drops: Counter[Drop] = Counter()
        self.waiting: list[Evidence] = []
        self._read(set(used), version)

    def batches(self) -> list[list[Evidence]]:
        """What waits, cut into batches; nothing is taken."""
        rest, found = list(self.waiting), []
        while rest:
            batch = self._cut(rest)
            found.append(batch)
            rest = rest[len(batch) :]
        return found

    def take(self, version: int) -> list[Evidence]:
        """The next batch for a learner at `version`; empty where less than `min_trajectories` is left."""
        self._drop_stale(version)
        batch = self._cut(self.waiting)
        if len(batch) < self.config.min_trajectories:
            return []
        self.waiting = self.waiting[len(batch) :]
        return batch

    def _read(self, used: set[str], version: int) -> None:
        where = TrajectoryFilter(run_id=self.config.run_id, split=self.config.split)

        def damaged(*_: object) -> None:
            self.drops[Drop.DAMAGED] += 1

        with Store.open(self.config.store, create=False) as store:
            for trajectory in store.iter(where, on_corrupt=damaged):
                verdict = (
                    Drop.ALREADY_USED if trajectory.id in used else judge(trajectory, self.config, version=version)
                )
                if isinstance(verdict, Drop):
                    self.drops[verdict] += 1
                else:
                    self.waiting.append(verdict)
        if self.grouped:
            self._gather_groups()

    def _gather_groups(self) -> None:
        """Groups become contiguous, in the order of their first member; those without a signal are left out."""
        groups: dict[str, list[Evidence]] = {}
        for item in self.waiting:
            groups.setdefault(item.group, []).append(item)
        self.waiting = []
        for members in groups.values():
            if len(members) == 1:
                self.drops[Drop.GROUP_OF_ONE] += 1
            elif self.mixed and len({item.reward for item in members}) == 1:
                self.drops[Drop.UNIFORM_GROUP] += len(members)
            else:
                self.waiting += members

    def _drop_stale(self, version: int) -> None:
        fresh = []
        for item in self.waiting:
            reason = freshness(item, self.config, version=version)
            if reason is None:
                fresh.append(item)
            else:
                self.drops[reason] += 1
        self.waiting = fresh
        if self.grouped:
            self._gather_groups()

    def _cut(self, items: list[Evidence]) -> list[Evidence]:
        """The first items that fit the batch's bounds, whole groups where groups matter; at least one unit."""
        count = tokens = 0
        for unit in self._units(items):
            size = sum(item.tokens for item in unit)
            too_many = count + len(unit) > self.config.batch_trajectories
            if count and (too_many or tokens + size > (self.config.max_batch_tokens or tokens + size)):
                break
            count, tokens = count + len(unit), tokens + size
        return items[:count]

    def _units(self, items: list[Evidence]) -> list[list[Evidence]]:
        if not self.grouped:
            return [[item] for item in items]
        units: list[list[Evidence]] = []
        for item in items:
            if units and units[-1][0].group == item.group:
                units[-1].append(item)
            else:
                units.append([item])
        return units
