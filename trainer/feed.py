"""The evidence of a run: each trajectory judged once, handed out in batches, used at most once.

    read / offer  →  judge  →  [a group waits until it is whole]  →  waiting  →  take

Staleness is judged when a batch is taken, against the version the learner has by then. Rules that compare rollouts of
one prompt get whole groups. While a store is still growing a group is whole once `group_size` of its rollouts have ended,
however they ended; in one that is not, it is what is there (`close_groups`). A rollout left without a companion is
counted and left out.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from agentgym.store import Store, Trajectory, TrajectoryFilter
from trainer.config import TrainConfig
from trainer.credit import Credit
from trainer.evidence import Drop, Evidence, freshness, judge


class Feed:
    """`waiting` holds what was judged fit and is not used yet; `drops` counts everything left out, by reason."""

    def __init__(
        self, config: TrainConfig, credit: Credit, *, used: Collection[str] = (), group_size: int | None = None
    ) -> None:
        self.config = config
        self.grouped = "groups" in credit.needs
        self.mixed = "mixed_groups" in credit.needs
        self.group_size = group_size
        self._by_tree = "forks" in credit.needs
        self._tree: dict[str, str] = {}
        self.drops: Counter[Drop] = Counter()
        self.waiting: list[Evidence] = []
        self._used = Counter(used)
        self._seen: set[str] = set()
        self._ended: Counter[str] = Counter()
        self._partial: dict[str, list[Evidence]] = {}

    @property
    def usable(self) -> int:
        """Trajectories judged fit and not used yet, those of groups that are not whole included."""
        return len(self.waiting) + sum(len(members) for members in self._partial.values())

    def read(self, store: Store, *, version: int) -> None:
        """Offer every trajectory of the run that was not seen yet."""

        def damaged(trajectory_id: str, _: object) -> None:
            if trajectory_id not in self._seen:
                self._seen.add(trajectory_id)
                self.drops[Drop.DAMAGED] += 1

        where = TrajectoryFilter(run_id=self.config.run_id, split=self.config.split)
        for trajectory in store.iter(where, on_corrupt=damaged):
            self.offer(trajectory, version=version)

    def offer(self, trajectory: Trajectory, *, version: int) -> Evidence | Drop | None:
        """Judge a finished trajectory for a learner at `version`; None where it was seen before."""
        if trajectory.id in self._seen:
            return None
        self._seen.add(trajectory.id)
        used = self._used[trajectory.id] >= self.config.passes
        verdict = Drop.ALREADY_USED if used else judge(trajectory, self.config, version=version)
        if self._by_tree:  # a fork belongs to the prompt of the trajectory it hangs on
            group = self._tree.get(trajectory.parent_id or "", trajectory.group_id or trajectory.task_digest)
            self._tree[trajectory.id] = group
            verdict = verdict if isinstance(verdict, Drop) else replace(verdict, group=group)
        if isinstance(verdict, Drop):
            self.drops[verdict] += 1
        elif self.grouped:
            self._partial.setdefault(verdict.group, []).append(verdict)
        else:
            self.waiting.append(verdict)
        if self.grouped and not used:
            self.ended(trajectory.group_id or trajectory.task_digest)
        return verdict

    def ended(self, group: str) -> None:
        """One more rollout of this group has ended, or will never be."""
        self._ended[group] += 1
        if self.group_size is not None and self._ended[group] >= self.group_size:
            self._admit(self._partial.pop(group, []))

    def shuffle(self) -> None:
        """Another order in each pass, the same for the same seed: demonstrations come sorted by what they show. What a pass that
        was interrupted has used already comes after what it has not."""
        salt = f"{self.config.seed}:{min((self._used[item.trajectory_id] for item in self.waiting), default=0)}"

        def place(item: Evidence) -> tuple[int, bytes]:
            digest = hashlib.sha256(f"{salt}:{item.trajectory_id}".encode()).digest()
            return self._used[item.trajectory_id], digest

        self.waiting.sort(key=place)

    def close_groups(self) -> None:
        """No group grows any more."""
        for members in self._partial.values():
            self._admit(members)
        self._partial = {}

    def counts(self) -> dict[str, int]:
        """What was left out, by reason."""
        return {reason.value: count for reason, count in sorted(self.drops.items()) if count}

    def ready(self) -> bool:
        """Whether a full batch waits."""
        full = len(self.waiting) >= self.config.batch_trajectories
        limit = self.config.max_batch_tokens
        return full or (limit is not None and sum(item.tokens for item in self.waiting) >= limit)

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
        self.drop_stale(version)
        batch = self._cut(self.waiting)
        if len(batch) < self.config.min_trajectories:
            return []
        self.waiting = self.waiting[len(batch) :]
        return batch

    def drop_stale(self, version: int) -> None:
        """Leave out what has become too old for a learner at `version`, and what has lost its companions by that."""
        units, self.waiting = self._units(self.waiting), []
        for unit in units:
            fresh = []
            for item in unit:
                reason = freshness(item, self.config, version=version)
                if reason is None:
                    fresh.append(item)
                else:
                    self.drops[reason] += 1
            if self.grouped:
                self._admit(fresh)
            else:
                self.waiting += fresh

    def _admit(self, members: list[Evidence]) -> None:
        """A whole group: it waits if it has a signal."""
        if len(members) == 1:
            self.drops[Drop.GROUP_OF_ONE] += 1
        elif self.mixed and len({item.reward for item in members}) == 1:
            self.drops[Drop.UNIFORM_GROUP] += len(members)
        else:
            self.waiting += members

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
