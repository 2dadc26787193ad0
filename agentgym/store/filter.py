"""What people ask a store for, and the row they get without reading a blob."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import sqlalchemy as sa

from agentgym.store.records import PolicyKind, Termination
from agentgym.store.schema import trajectory as table


@dataclass(frozen=True, slots=True)
class TrajectoryFilter:
    """Conditions joined by *and*; a field left at its default asks nothing.

    terminations: any of these. version_min, version_max: every sampled token's policy version lies within.
    created_after (inclusive), created_before (exclusive): unix seconds. has_reward: with or without a verdict.
    trainable: sampled by a model, with a verdict and at least one action token. newest_first: order by age, oldest
    first otherwise. after: the (created_at, id) of the last trajectory seen, to go on behind it in that order.
    """

    run_id: str | None = None
    group_id: str | None = None
    task_id: str | None = None
    task_digest: str | None = None
    split: str | None = None
    harness_digest: str | None = None
    backend: str | None = None
    policy: str | None = None
    policy_kind: PolicyKind | None = None
    model: str | None = None
    parent_id: str | None = None
    terminations: tuple[Termination, ...] = ()
    reward_min: float | None = None
    reward_max: float | None = None
    has_reward: bool | None = None
    version_min: int | None = None
    version_max: int | None = None
    created_after: float | None = None
    created_before: float | None = None
    trainable: bool = False
    newest_first: bool = False
    after: tuple[float, str] | None = None
    limit: int | None = None

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """The WHERE clauses over the trajectory table."""
        column = table.c
        narrow = any(getattr(self, name) is not None for name in _NARROW)

        def text(name: str) -> sa.ColumnElement[str]:
            """A broad column, hidden from its index where a narrow one is better: SQLite takes either for as good."""
            return column[name] + "" if narrow and name not in _NARROW else column[name]

        found = [text(name) == getattr(self, name) for name in _EQUAL if getattr(self, name) is not None]
        bounds = (
            (self.reward_min, lambda bound: column.reward >= bound),
            (self.reward_max, lambda bound: column.reward <= bound),
            (self.version_min, lambda bound: column.version_min >= bound),
            (self.version_max, lambda bound: column.version_max <= bound),
            (self.created_after, lambda bound: column.created_at >= bound),
            (self.created_before, lambda bound: column.created_at < bound),
        )
        found += [condition(bound) for bound, condition in bounds if bound is not None]
        if self.terminations:
            found.append(text("termination").in_([termination.value for termination in self.terminations]))
        if self.has_reward is not None:
            found.append(column.reward.is_not(None) if self.has_reward else column.reward.is_(None))
        if self.trainable:
            found += [
                column.policy_kind == PolicyKind.MODEL.value,
                column.reward.is_not(None),
                column.action_tokens > 0,
            ]
        if self.after is not None:
            key = sa.tuple_(column.created_at, column.id)
            bound = sa.tuple_(key_literal(self.after[0]), key_literal(self.after[1]))
            found.append(key < bound if self.newest_first else key > bound)
        return found

    def order(self) -> tuple[sa.ColumnElement[Any], ...]:
        """The ORDER BY clauses: by age, then id."""
        keys = (table.c.created_at, table.c.id)
        return tuple(key.desc() for key in keys) if self.newest_first else keys


_EQUAL = (
    "run_id",
    "group_id",
    "task_id",
    "task_digest",
    "split",
    "harness_digest",
    "backend",
    "policy",
    "policy_kind",
    "model",
    "parent_id",
)


_NARROW = ("run_id", "group_id", "task_id", "parent_id")
"""What few trajectories share."""


@dataclass(frozen=True, slots=True)
class TrajectorySummary:
    """The columns of one trajectory.

    tokens: distinct tokens stored (prompts counted once). action_tokens: sampled by the policy. version_min,
    version_max: policy versions of its sampled tokens, None where there are none. created_at: unix seconds.
    """

    id: str
    run_id: str
    group_id: str
    parent_id: str | None
    branch_step: int | None
    task_id: str
    task_digest: str
    split: str
    harness_digest: str
    backend: str
    image_digest: str
    policy: str
    policy_kind: PolicyKind
    model: str
    termination: Termination
    reward: float | None
    seed: int | None
    version_min: int | None
    version_max: int | None
    calls: int
    steps: int
    tokens: int
    action_tokens: int
    created_at: float

    @staticmethod
    def of_row(row: Any) -> TrajectorySummary:
        """The summary in a row of the trajectory table. Raises ValueError for a value that no writer put there: another type,
        no finite number, text that is no UTF-8, a termination this code does not know."""
        values = {name: getattr(row, name) for name in SUMMARY_FIELDS}
        for name, value in values.items():
            if not isinstance(value, _KINDS[name]):
                raise ValueError(f"column {name} holds {value!r:.80}")
            if (isinstance(value, float) and not math.isfinite(value)) or (
                name in _NARROW_INTEGERS and not _fits32(value)
            ):
                raise ValueError(f"column {name} holds {value}")
            if isinstance(value, str) and not is_text(value):
                raise ValueError(f"column {name} holds bytes that are no UTF-8: {printable(value)[:80]}")
        values["policy_kind"] = PolicyKind(row.policy_kind)
        values["termination"] = Termination(row.termination)
        return TrajectorySummary(**values)


def _fits32(value: float | None) -> bool:
    return value is None or -(2**31) <= value < 2**31


def is_text(value: str) -> bool:
    """Whether stored text was UTF-8; what was not has lone surrogates (see `agentgym.store.engine`)."""
    return value.isascii() or not any("\udc80" <= character <= "\udcff" for character in value)


def printable(value: object) -> str:
    """Stored text for people, whatever its bytes are."""
    return str(value).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def key_literal(key: Any) -> sa.ColumnElement[Any]:
    """Age or id of a row to go on behind, also one of another type, or whose bytes are no UTF-8."""
    if isinstance(key, (int, float)):
        return sa.literal(key, sa.Double)
    if not isinstance(key, str) or is_text(key):
        return sa.literal(key)
    return sa.cast(sa.literal(key.encode("utf-8", "surrogateescape")), sa.Text)


def _kinds(column: sa.Column[Any]) -> tuple[type, ...]:
    kind = column.type.python_type
    kinds = (float, int) if kind is float else (kind,)
    return (*kinds, type(None)) if column.nullable else kinds


SUMMARY_FIELDS = tuple(field.name for field in fields(TrajectorySummary))
_NARROW_INTEGERS = frozenset(name for name in SUMMARY_FIELDS if type(table.c[name].type) is sa.Integer)
"""What SQLite does not hold to 32 bits."""
COUNT_FIELDS = ("calls", "steps", "tokens", "action_tokens", "version_min", "version_max")
"""Summary columns that repeat what the blobs say."""
_KINDS = {name: _kinds(table.c[name]) for name in SUMMARY_FIELDS}
"""What a column may hold; SQLite does not hold a column to its type."""
RECORD_FIELDS = tuple(name for name in SUMMARY_FIELDS if name not in COUNT_FIELDS)
"""Summary columns that are fields of `Trajectory` under the same name and stand nowhere else."""
FLOAT_FIELDS = tuple(name for name in RECORD_FIELDS if float in _KINDS[name])
"""Those that are numbers of a column of numbers."""


def as_stored(value: float | None) -> float | None:
    """What a column of numbers gives back; SQLite keeps no sign of zero."""
    return None if value is None else float(value) + 0.0
