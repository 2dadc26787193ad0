"""Curves of a run: what its episodes earned and cost in the order they came, and what its training steps measured.

Long runs are cut into at most `POINTS` stretches of equally many episodes, each its mean. What training measured is in
the store under the run's id where it rolled out too, else in the `metrics.jsonl` beside the checkpoints of a launched run.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from agentgym.server.runs.launch import LaunchedRun
from agentgym.store import Store
from agentgym.store.engine import reading
from agentgym.store.schema import trajectory as rows

POINTS = 200
MOST_STEPS = 100_000


@dataclass(frozen=True, slots=True)
class Curve:
    """x, y: of equal length; y is None where there is nothing (no verdict in a stretch)."""

    name: str
    x_label: str
    x: list[float]
    y: list[float | None]


def measured(store: Store, run_id: str, launched: LaunchedRun | None) -> Mapping[int, Mapping[str, float]]:
    """What training measured, by update."""
    return store.metrics(run_id) or (dict(_file(launched.directory)) if launched else {})


def curves(store: Store, run_id: str, launched: LaunchedRun | None) -> list[Curve]:
    return [*_episodes(store, run_id), *_training(measured(store, run_id, launched).items())]


def _episodes(store: Store, run_id: str) -> Iterator[Curve]:
    columns = (rows.c.reward, rows.c.steps, rows.c.action_tokens)
    query = sa.select(*columns).where(rows.c.run_id == run_id).order_by(rows.c.created_at, rows.c.id)
    with reading(store.engine) as connection:
        found = connection.execute(query).all()
    if not found:
        return
    table = np.array([[math.nan if value is None else value for value in row] for row in found], np.float64)
    parts = np.array_split(table, min(POINTS, len(table)))
    ends = np.cumsum([len(part) for part in parts]).tolist()
    for index, name in enumerate(("mean reward", "steps an episode", "sampled tokens an episode")):
        means = [float(np.nanmean(part[:, index])) if np.isfinite(part[:, index]).any() else None for part in parts]
        yield Curve(name, "episodes", ends, means)


def _training(measured: Iterable[tuple[int, Mapping[str, float]]]) -> Iterator[Curve]:
    steps: list[float] = []
    values: dict[str, list[float | None]] = {}
    for step, metrics in itertools.islice(measured, MOST_STEPS):
        for name, value in metrics.items():
            column = values.setdefault(name, [])
            column += [None] * (len(steps) - len(column))
            column.append(float(value) if math.isfinite(value) else None)
        steps.append(step)
    for name, column in values.items():
        yield Curve(name, "policy updates", steps, column + [None] * (len(steps) - len(column)))


def _file(directory: Path) -> Iterator[tuple[int, dict[str, float]]]:
    path = directory / "checkpoints" / "metrics.jsonl"
    if not path.is_file():
        return
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                metrics = json.loads(line)
            except ValueError:
                continue  # the last line of a run at work may be half written
            kept = {name: value for name, value in metrics.items() if type(value) in (int, float) and name != "step"}
            yield metrics.get("step", number), kept
