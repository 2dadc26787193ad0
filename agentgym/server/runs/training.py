"""What a training run measured, in the order of the questions that decide whether its updates can be trusted.

Does it learn; is the right behaviour credited; does the learner compute the probabilities that were sampled from; how old is the
evidence; how much of it did the environment spoil. What no question asks for follows at the end, so nothing that was
measured is hidden. Long runs are thinned to at most `POINTS` updates, the newest always among them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from agentgym.server.runs.launch import LaunchedRun
from agentgym.server.runs.series import measured
from agentgym.store import NotFoundError, Store
from agentgym.store.engine import reading
from agentgym.store.schema import training_metric as metrics

POINTS = 1000
TENTHS = range(10)
UPDATES = "policy updates"


@dataclass(frozen=True, slots=True)
class Line:
    """y: as long as its chart's x; None where there is nothing."""

    name: str
    y: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    unit: str
    x_label: str
    x: Sequence[float]
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Question:
    """name: what it is about. asks: what the charts answer."""

    name: str
    asks: str
    charts: Sequence[Chart]


@dataclass(frozen=True, slots=True)
class TrainedRun:
    """updates: how many the store has numbers of. step: the newest. at: when it was, unix seconds."""

    run_id: str
    updates: int
    step: int
    at: float


@dataclass(frozen=True, slots=True)
class _Plan:
    """names: of metrics; one that ends in "/" is all that begin so."""

    title: str
    unit: str
    names: tuple[str, ...]


_QUESTIONS: Mapping[str, tuple[str, tuple[_Plan, ...]]] = {
    "Progress": (
        "Does it solve more?",
        (
            _Plan("success", "share of episodes", ("train_success", "success", "held_out_success")),
            _Plan("reward", "mean", ("train_reward", "reward_mean")),
            _Plan("loss", "", ("policy_loss", "value_loss")),
        ),
    ),
    "Credit": (
        "Is it the right behaviour that is rewarded?",
        (
            _Plan("variance the critic explains", "share", ("explained_variance_before", "explained_variance")),
            _Plan("advantage", "mean and spread", ("advantage_mean", "advantage_std")),
        ),
    ),
    "Fidelity": (
        "Does the learner compute the probabilities that were sampled from?",
        (
            _Plan("largest logprob gap", "nats", ("logprob_gap", "publish_gap")),
            _Plan("drift from the behaviour policy", "nats", ("kl",)),
        ),
    ),
    "Freshness": (
        "How old is the evidence, and how much of it still counts?",
        (
            _Plan("staleness", "policy versions", ("staleness_mean", "staleness_max")),
            _Plan(
                "tails of the importance ratio", "", ("ratio_min", "ratio_p01", "ratio_mean", "ratio_p99", "ratio_max")
            ),
            _Plan("masked tokens", "share", ("masked_fraction",)),
            _Plan("effective sample size", "share", ("effective_sample_size",)),
        ),
    ),
    "Environment": (
        "How much was spoilt or waited for?",
        (
            _Plan(
                "failures that are not the policy's",
                "share of episodes",
                ("environment_failure_rate", "policy_failure_rate"),
            ),
            _Plan("time of an episode by phase", "s", ("phase_seconds/",)),
            _Plan("idle", "share of the time", ("learner_idle_fraction", "rollout_idle_fraction")),
            _Plan("how episodes ended", "share", ("termination/",)),
        ),
    ),
}


def trained_runs(store: Store) -> list[TrainedRun]:
    """Every run with numbers of training in the store, newest first."""
    at = sa.func.max(metrics.c.created_at)
    query = sa.select(metrics.c.run_id, sa.func.count(sa.distinct(metrics.c.step)), sa.func.max(metrics.c.step), at)
    with reading(store.engine) as connection:
        found = connection.execute(query.group_by(metrics.c.run_id).order_by(at.desc())).all()
    return [TrainedRun(*row) for row in found]


def has_training(store: Store, run_id: str) -> bool:
    with reading(store.engine) as connection:
        query = sa.select(metrics.c.step).where(metrics.c.run_id == run_id).limit(1)
        return connection.execute(query).first() is not None


def questions(store: Store, run_id: str, launched: LaunchedRun | None) -> list[Question]:
    """Raises NotFoundError for a run that measured nothing."""
    known = "\0" not in run_id  # PostgreSQL takes none in a comparison
    steps, columns = _columns(measured(store, run_id, launched) if known else {})
    if not steps:
        raise NotFoundError(f"no training run {run_id!r}", hint="GET /v1/training lists them")
    found: list[Question] = []
    shown: set[str] = {"kept_fraction", "version"}
    for name, (asks, plans) in _QUESTIONS.items():
        charts = [_chart(plan, steps, columns, shown) for plan in plans]
        if name == "Credit":
            charts.append(_by_position(columns, shown))
        found.append(Question(name, asks, [chart for chart in charts if chart.lines]))
    rest = [name for name in columns if name not in shown]
    charts = [_chart(_Plan(name, "", (name,)), steps, columns, shown) for name in sorted(rest)]
    return [*found, Question("Everything else", "What no question above asks for.", charts)]


def _columns(steps: Mapping[int, Mapping[str, float]]) -> tuple[list[float], dict[str, list[float | None]]]:
    """Steps and a column per metric, thinned from the newest backwards."""
    every = sorted(steps)
    chosen = every[:: -max(1, math.ceil(len(every) / POINTS))][::-1]
    names = {name for step in chosen for name in steps[step]}
    columns = {name: [_finite(steps[step].get(name)) for step in chosen] for name in sorted(names)}
    if "kept_fraction" in columns:
        columns["masked_fraction"] = [None if kept is None else 1 - kept for kept in columns["kept_fraction"]]
    return [float(step) for step in chosen], columns


def _chart(plan: _Plan, steps: list[float], columns: Mapping[str, list[float | None]], shown: set[str]) -> Chart:
    lines: list[Line] = []
    for wanted in plan.names:
        for name in [one for one in columns if one == wanted or (wanted.endswith("/") and one.startswith(wanted))]:
            shown.add(name)
            lines.append(Line(name.removeprefix(wanted) or name, columns[name]))
    return Chart(plan.title, plan.unit, UPDATES, steps, lines)


def _by_position(columns: Mapping[str, list[float | None]], shown: set[str]) -> Chart:
    """Of the newest update: the advantage along an episode."""
    lines = []
    for prefix, label in (("advantage", "mean"), ("advantage_size", "mean magnitude")):
        names = [f"{prefix}/{tenth}" for tenth in TENTHS]
        shown.update(names)
        y = [columns[name][-1] if name in columns else None for name in names]
        if any(value is not None for value in y):
            lines.append(Line(label, y))
    return Chart(
        "advantage by position, newest update", "", "tenth of an episode's calls", [float(t + 1) for t in TENTHS], lines
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
