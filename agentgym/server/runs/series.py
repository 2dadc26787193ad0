"""Curves of a run: what its episodes earned and cost in the order they came, and what its training steps measured.

Long runs are cut into at most `POINTS` stretches of equally many episodes, each its mean. A training run's metrics are
read from the `metrics.jsonl` beside its checkpoints, step by step.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
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


def curves(store: Store, run_id: str, launched: LaunchedRun | None) -> list[Curve]:
    return [*_episodes(store, run_id), *(_training(launched.directory) if launched else ())]


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


def _training(directory: Path) -> Iterator[Curve]:
    path = directory / "checkpoints" / "metrics.jsonl"
    if not path.is_file():
        return
    steps: list[float] = []
    values: dict[str, list[float | None]] = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            try:
                metrics = json.loads(line)
            except ValueError:
                continue  # the last line of a run at work may be half written
            steps.append(metrics.get("step", len(steps) + 1))
            for name, value in metrics.items():
                if name != "step" and isinstance(value, (int, float)) and not isinstance(value, bool):
                    column = values.setdefault(name, [])
                    column += [None] * (len(steps) - 1 - len(column))
                    column.append(float(value) if math.isfinite(value) else None)
            if len(steps) >= MOST_STEPS:
                break
    for name, column in values.items():
        yield Curve(name, "policy updates", steps, column + [None] * (len(steps) - len(column)))
