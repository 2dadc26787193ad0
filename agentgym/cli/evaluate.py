"""`agentgym eval`: how often a policy solves tasks, and whether one policy solves more than another."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import typer
from pydantic import Field
from rich.markup import escape
from rich.table import Table

from agentgym.cli.options import config_command
from agentgym.cli.output import emit
from agentgym.cli.rollout import RolloutConfig, roll_out, stored, usable_tasks
from agentgym.cli.shared import open_registry
from agentgym.errors import InputError
from agentgym.observe.success import Comparison, Estimate, Outcomes, compare, pass_at_k
from agentgym.store import Store, TrajectoryFilter
from agentgym.tasks import Task, TaskError

Tags = Mapping[str, tuple[str, ...]]
"""Task id → labels that results are split by."""


class EvalConfig(RolloutConfig):
    """A rollout whose result is a success rate."""

    tasks: list[str] = Field(["all"], description='Task ids or directories, or "all".')
    split: str = Field("held-out", description='Only tasks of this split, or "all".')
    compare: tuple[str, str] | None = Field(
        None, description="Two policies, B against A: runs in the store, or models, which are rolled out first."
    )


def register(app: typer.Typer) -> None:
    config_command(app, EvalConfig, "eval", positional="tasks")(evaluate)


def evaluate(config: EvalConfig, *, as_json: bool) -> None:
    """Measure a policy: pass@1 and unbiased pass@k with 95 % intervals, over all tasks and per tag.

    Failures of the environment are counted apart, never as 0. With --compare A B: the paired difference of two policies.
    """
    if config.compare is not None:
        _compare(config, *config.compare, as_json=as_json)
        return
    tasks = usable_tasks(config, split=config.split)
    run_id, report = asyncio.run(roll_out(config, tasks))
    outcomes = Outcomes.of(stored(config.store, report.trajectory_ids))
    tags = {task.id: labels(task) for task in tasks}
    document = measured(outcomes, tags)
    emit({"run_id": run_id, **document}, _table(f"evaluation {run_id}", outcomes, tags), as_json=as_json)


def measured(outcomes: Outcomes, tags: Tags) -> dict[str, Any]:
    """pass@1, pass@k for every power of two that all tasks have verdicts for, per task and per tag."""
    found: dict[str, Any] = {f"pass@{k}": _estimate(one) for k, one in _estimates(outcomes)}
    found.setdefault("pass@1", None)
    found["tasks"] = {task: dataclasses.asdict(counts) for task, counts in outcomes.counts.items()}
    found["tags"] = {tag: _estimate(pass_at_k(part, 1)) for tag, part in _by_tag(outcomes, tags)}
    return found


def labels(task: Task) -> tuple[str, ...]:
    """What a task's result is also counted under."""
    named = {"difficulty": task.difficulty, "language": task.language, "source": str(task.source.get("kind", ""))}
    return (*(f"{name}:{value}" for name, value in named.items() if value), *task.tags)


def _compare(config: EvalConfig, a: str, b: str, *, as_json: bool) -> None:
    outcomes = [_outcomes_of(config, name) for name in (a, b)]
    tags = _known_tags(config)
    overall = compare(*outcomes, seed=config.seed or 0)
    if overall is None:
        raise InputError(
            f"{a} and {b} have no task in common with a verdict for both", hint="agentgym store ls --run …"
        )
    per_tag = {}
    for tag, part in _by_tag(outcomes[0], tags):
        other = outcomes[1].only(part.counts)
        if (found := compare(part, other, seed=config.seed or 0)) is not None:
            per_tag[tag] = found
    table = Table(title=f"{escape(b)} against {escape(a)}", title_justify="left", box=None, pad_edge=False)
    for heading in ("", "tasks", "A", "B", "B − A", "95 % interval", "p", "better", "worse"):
        table.add_column(heading)
    for name, found in {"all": overall, **per_tag}.items():
        table.add_row(escape(name), *_row(found))
    document = {"a": a, "b": b, **dataclasses.asdict(overall)}
    document["tags"] = {tag: dataclasses.asdict(found) for tag, found in per_tag.items()}
    emit(document, table, as_json=as_json)


def _outcomes_of(config: EvalConfig, name: str) -> Outcomes:
    """Of a run in the store under this name, else of a model, rolled out now under a run named after it."""
    split = None if config.split == "all" else config.split
    with Store.open(config.store) as store:
        if store.count(TrajectoryFilter(run_id=name)):
            return Outcomes.of(store.query(TrajectoryFilter(run_id=name, split=split)))
    run_id = f"{config.run_id}-{name.rstrip('/').replace('/', '_')}" if config.run_id else ""
    acting = config.model_copy(update={"model": name, "run_id": run_id, "policy": "model"})
    _, report = asyncio.run(roll_out(acting, usable_tasks(acting, split=config.split)))
    return Outcomes.of(stored(config.store, report.trajectory_ids))


def _known_tags(config: EvalConfig) -> Tags:
    found: dict[str, tuple[str, ...]] = {}
    for entry in open_registry(config.store).list():
        try:
            found[entry.id] = labels(entry.load())
        except TaskError:  # gone or changed since: its results count, without labels
            continue
    return found


def _estimates(outcomes: Outcomes) -> Iterator[tuple[int, Estimate]]:
    """pass@1, then pass@k for k = 2, 4, 8, … and the largest k that every task has verdicts for."""
    most = min((counts.graded for counts in outcomes.graded.values()), default=0)
    powers = {1 << exponent for exponent in range(most.bit_length()) if 1 << exponent <= most}
    for k in sorted(powers | ({most} if most else set())):
        if (found := pass_at_k(outcomes, k)) is not None:
            yield k, found


def _by_tag(outcomes: Outcomes, tags: Tags) -> Iterator[tuple[str, Outcomes]]:
    for tag in sorted({tag for task in outcomes.counts for tag in tags.get(task, ())}):
        part = outcomes.only(task for task in outcomes.counts if tag in tags.get(task, ()))
        if part.graded:
            yield tag, part


def _estimate(found: Estimate | None) -> dict[str, Any] | None:
    return None if found is None else dataclasses.asdict(found)


def _table(title: str, outcomes: Outcomes, tags: Tags) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("", "solved", "95 % interval", "no verdict"):
        table.add_column(heading)
    for task, counts in outcomes.counts.items():
        table.add_row(escape(task), f"{counts.solved} of {counts.graded}", "", str(counts.ungraded or ""))
    for tag, part in _by_tag(outcomes, tags):
        found = pass_at_k(part, 1)
        if found is not None:
            table.add_row(
                f"[dim]{escape(tag)}[/]", f"{found.value:.3f}", _interval(found), f"[dim]{found.tasks} tasks[/]"
            )
    estimates = list(_estimates(outcomes))
    for k, found in estimates:
        table.add_row(f"[bold]pass@{k}[/]", f"[bold]{found.value:.3f}[/]", _interval(found), f"{found.tasks} tasks")
    if not estimates:
        table.add_row("[bold]pass@1[/]", "no verdicts", "", "")
    return table


def _interval(found: Estimate | Comparison) -> str:
    return (
        f"{found.low:+.3f} to {found.high:+.3f}"
        if isinstance(found, Comparison)
        else f"{found.low:.3f} to {found.high:.3f}"
    )


def _row(found: Comparison) -> tuple[str, ...]:
    rates = (f"{found.rate_a:.3f}", f"{found.rate_b:.3f}", f"{found.difference:+.3f}", _interval(found))
    return (str(found.tasks), *rates, f"{found.p_value:.4f}", str(found.better), str(found.worse))
