"""A store whose database may be away for a while: what fails for that reason is tried again, everything else at once.

Writing a trajectory twice is harmless (the second time says it was there), so a commit whose answer was lost is safe.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import sqlalchemy as sa

from agentgym.store import (
    CorruptError,
    InvalidTrajectoryError,
    NotFoundError,
    Store,
    StoreError,
    Trajectory,
    TrajectorySummary,
)
from agentgym.store.credit import TokenCredit
from agentgym.store.filter import TrajectoryFilter
from agentgym.store.stream import OnCorrupt, log_corrupt

T = TypeVar("T")
_log = logging.getLogger(__name__)
_AWAY = ("connect", "server closed", "shutting down", "starting up", "terminating", "recovery", "the database system")


class PatientStore(Store):
    """Blocks for up to `patience_s` while a database server is away; call it from threads."""

    def __init__(self, engine: sa.Engine, patience_s: float) -> None:
        super().__init__(engine)
        self.patience_s = patience_s

    @classmethod
    def over(cls, store: Store, patience_s: float) -> PatientStore:
        return cls(store.engine, patience_s)

    def add(self, trajectory: Trajectory, harness: Mapping[str, Any] | None = None) -> bool:
        return self._insist(lambda: super(PatientStore, self).add(trajectory, harness))

    def get(self, id_or_prefix: str) -> Trajectory:
        return self._insist(lambda: super(PatientStore, self).get(id_or_prefix))

    def summary(self, id_or_prefix: str) -> TrajectorySummary:
        return self._insist(lambda: super(PatientStore, self).summary(id_or_prefix))

    def iter(
        self, where: TrajectoryFilter = TrajectoryFilter(), *, on_corrupt: OnCorrupt = log_corrupt
    ) -> Iterator[Trajectory]:
        for summary in self._insist(lambda: list(super(PatientStore, self).query(where, on_corrupt=on_corrupt))):
            try:
                yield self.get(summary.id)
            except CorruptError as error:
                on_corrupt(summary.id, error)

    def put_metrics(self, run_id: str, step: int, values: Mapping[str, float]) -> None:
        self._insist(lambda: super(PatientStore, self).put_metrics(run_id, step, values))

    def put_credit(self, run_id: str, step: int, version: int, found: Mapping[str, TokenCredit]) -> None:
        self._insist(lambda: super(PatientStore, self).put_credit(run_id, step, version, found))

    def _insist(self, work: Callable[[], T]) -> T:
        deadline, wait = time.monotonic() + self.patience_s, 0.25
        while True:
            try:
                return work()
            except (CorruptError, InvalidTrajectoryError, NotFoundError):
                raise
            except StoreError as error:
                if not _is_away(error) or time.monotonic() + wait > deadline:
                    raise
                _log.warning("the store is away, trying again: %s", error.args[0])
                time.sleep(wait)
                wait = min(2 * wait, 5.0)


def _is_away(error: StoreError) -> bool:
    return any(sign in str(error.args[0]).lower() for sign in _AWAY)
