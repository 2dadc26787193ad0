"""`agentgym rollout` and `agentgym eval`: let a policy act on tasks, and record what happened."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from math import comb
from typing import TYPE_CHECKING, Any, Literal

import typer
from pydantic import Field
from rich.markup import escape
from rich.table import Table

from agentgym.cli.options import config_command
from agentgym.cli.output import emit, progress, stderr
from agentgym.cli.policy import load_policy, load_tokenizer
from agentgym.cli.shared import backend_for, default_store, open_registry, resolve_tasks
from agentgym.config import Config
from agentgym.errors import AgentGymError
from agentgym.models import DEFAULT_MODEL
from agentgym.sandbox import BackendName
from agentgym.sandbox.images import unpinned
from agentgym.store import Store, TrajectorySummary
from agentgym.tasks import Task, TaskError

if TYPE_CHECKING:
    from agentgym.sandbox.protocol import SandboxBackend
    from harness.engine import RolloutReport
    from harness.jobs import Job
    from harness.policies.protocol import Policy


class RolloutConfig(Config):
    """Which policy acts on which tasks, where, and into which store."""

    tasks: list[str] = Field([], description='Task ids or directories, or "all".')
    policy: Literal["model", "gold", "empty"] = Field(
        "model", description="model: samples; gold: plays the solution; empty: submits at once."
    )
    model: str = Field(
        DEFAULT_MODEL, description="Shipped name, transformers directory, hub id, or URL of a vLLM server."
    )
    tokenizer: str | None = Field(None, description="For a server: the directory or hub id its tokenizer comes from.")
    policy_version: int | None = Field(
        None, ge=0, description="Recorded with every sampled token (default: what a trainer's checkpoint says, else 0)."
    )
    profile: str = Field("tiny", description="Harness profile: a shipped name or a TOML file.")
    temperature: float | None = Field(None, ge=0, description="Instead of the profile's; 0 is greedy.")
    rollouts: int = Field(1, ge=1, description="Episodes per task.")
    concurrency: int = Field(4, ge=1, description="Episodes at once.")
    seed: int | None = Field(0, description="Every episode's seed is derived from it.")
    backend: BackendName = Field(
        "auto", description="Where commands run; auto: Docker if an engine answers, else local."
    )
    store: str = Field(default_factory=default_store, description="SQLite path or SQLAlchemy URL.")
    run_id: str = Field(
        "", description="Name of the run (default: the time); a run named again does only what is missing."
    )
    retry_failed: bool = Field(False, description="Also run again what an earlier call stored as a failure.")
    environment_retries: int = Field(2, ge=0, description="Fresh attempts after an environment failure.")
    any_status: bool = Field(False, description="Also tasks that validation has not found valid.")


class EvalConfig(RolloutConfig):
    """A rollout whose result is a success rate."""

    tasks: list[str] = Field(["all"], description='Task ids or directories, or "all".')
    split: str = Field("held-out", description='Only tasks of this split, or "all".')


def register(app: typer.Typer) -> None:
    config_command(app, RolloutConfig, "rollout", positional="tasks")(rollout)
    config_command(app, EvalConfig, "eval", positional="tasks")(evaluate)


def rollout(config: RolloutConfig, *, as_json: bool) -> None:
    """Let a policy act on tasks in sandboxes; every finished episode is graded and stored at once.

    Ctrl-C stops it: sandboxes are removed, finished trajectories stay, and the same --run-id goes on later.
    """
    tasks = _usable(config, split="all")
    run_id, report = asyncio.run(_roll_out(config, tasks))
    summaries = _of_run(config.store, report.trajectory_ids)
    emit(_document(run_id, report, summaries), summary_table(summaries, f"run {run_id}"), as_json=as_json)
    if report.failed:
        reasons = "\n".join(f"  job {index}: {reason}" for index, reason in sorted(report.failed.items()))
        raise AgentGymError(f"{len(report.failed)} episodes could not be run\n{reasons}")


def evaluate(config: EvalConfig, *, as_json: bool) -> None:
    """Measure a policy: success rate and pass@k over tasks. Failures of the environment are counted apart, never as 0."""
    tasks = _usable(config, split=config.split)
    run_id, report = asyncio.run(_roll_out(config, tasks))
    summaries = _of_run(config.store, report.trajectory_ids)
    result = success(summaries)
    table = Table(title=f"evaluation {run_id}", title_justify="left", box=None, pad_edge=False)
    for heading in ("task", "solved", "no verdict"):
        table.add_column(heading)
    for task, counts in result["tasks"].items():
        table.add_row(escape(task), f"{counts['solved']} of {counts['graded']}", str(counts["ungraded"] or ""))
    table.add_row("[bold]pass@1[/]", _rate(result["pass@1"], result["standard_error"]), "")
    for name in result.keys() - {"pass@1", "standard_error", "tasks"}:  # pass@n, where every task has n verdicts
        table.add_row(f"[bold]{name}[/]", _rate(result[name], None), "")
    emit({"run_id": run_id, **result}, table, as_json=as_json)


def success(summaries: Sequence[TrajectorySummary]) -> dict[str, Any]:
    """pass@1 and pass@n over tasks (unbiased: 1 − C(n−c, k)/C(n, k)); tasks are weighted equally.

    standard_error: of pass@1, over tasks; None with fewer than two.
    """
    tasks: dict[str, dict[str, int]] = {}
    for one in summaries:
        counts = tasks.setdefault(one.task_id, {"solved": 0, "graded": 0, "ungraded": 0})
        counts["ungraded" if one.reward is None else "graded"] += 1
        counts["solved"] += one.reward == 1.0
    graded = [counts for counts in tasks.values() if counts["graded"]]
    rates = [counts["solved"] / counts["graded"] for counts in graded]
    result: dict[str, Any] = {
        "pass@1": statistics.fmean(rates) if rates else None,
        "standard_error": statistics.stdev(rates) / len(rates) ** 0.5 if len(rates) > 1 else None,
    }
    most = min((counts["graded"] for counts in graded), default=0)
    if most > 1:
        result[f"pass@{most}"] = statistics.fmean(
            1 - comb(counts["graded"] - counts["solved"], most) / comb(counts["graded"], most) for counts in graded
        )
    return result | {"tasks": dict(sorted(tasks.items()))}


def _rate(mean: float | None, error: float | None) -> str:
    if mean is None:
        return "no verdicts"
    return f"{mean:.3f}" + (f" ± {error:.3f}" if error is not None else "")


def _usable(config: RolloutConfig, *, split: str) -> list[Task]:
    """The tasks named, of this split; refuses those that validation has not found valid unless told otherwise."""
    registry = open_registry(config.store)
    tasks = [task for task in resolve_tasks(config.tasks, registry) if split in ("all", task.split)]
    if not tasks:
        raise TaskError(f"none of these tasks is in the split {split!r}", hint="agentgym tasks list; --split all")
    doubtful = [task.id for task in tasks if registry.status(task.digest) != "valid"]
    if doubtful and not config.any_status:
        raise TaskError(
            f"not validated, so their rewards mean nothing: {', '.join(doubtful)}",
            hint=f"agentgym tasks validate {' '.join(doubtful[:8])}, or --any-status",
        )
    floating = {task.id: names for task in tasks if (names := unpinned(task.image))}
    if floating and not config.any_status:
        listed = ", ".join(f"{id_} (FROM {' '.join(names)})" for id_, names in floating.items())
        raise TaskError(
            f"their images are whatever `latest` is today, so nothing can be trained on them: {listed}",
            hint="name a tag or a digest in environment/Dockerfile, or --any-status",
        )
    return tasks


async def _roll_out(config: RolloutConfig, tasks: list[Task]) -> tuple[str, RolloutReport]:
    run_id = config.run_id or time.strftime("%Y%m%d-%H%M%S")
    jobs = make_jobs(config, tasks)
    async with backend_for(config.backend, owner=f"rollout {run_id}") as backend:
        with Store.open(config.store) as store:
            report = await run_jobs(jobs, run_id=run_id, store=store, backend=backend, config=config)
    if report.skipped:
        stderr.print(f"[dim]{report.skipped} of {len(jobs)} episodes were in the store already[/]", highlight=False)
    return run_id, report


def make_jobs(config: RolloutConfig, tasks: list[Task]) -> list[Job]:
    """The episodes this config asks for; loads the model where one is needed."""
    from harness.jobs import plan
    from harness.policies.scripted import ScriptedPolicy, empty_script, gold_script
    from harness.profile import load_profile
    from harness.render import load_renderer

    profile = load_profile(config.profile)
    if config.temperature is not None:
        sampling = profile.sampling.model_copy(update={"temperature": config.temperature})
        profile = profile.model_copy(update={"sampling": sampling})
    renderer = load_renderer(load_tokenizer(config.model, config.tokenizer))

    def acting(task: Task) -> Policy:
        if config.policy == "gold":
            return ScriptedPolicy(gold_script(task, profile), renderer, name="gold")
        return ScriptedPolicy(empty_script(profile), renderer, name="empty")

    policy = load_policy(config.model, config.policy_version) if config.policy == "model" else acting
    return plan(tasks, policy, renderer, profile, rollouts=config.rollouts, seed=config.seed)


async def run_jobs(
    jobs: list[Job],
    *,
    run_id: str,
    store: Store,
    backend: SandboxBackend,
    config: RolloutConfig,
    title: str = "episodes",
) -> RolloutReport:
    """Run the jobs with a progress bar that says what the episodes are doing."""
    from harness.engine import EventKind, RolloutEvent, run_rollouts

    phases: dict[int, str] = {}
    with progress() as bars:
        bar = bars.add_task(title, total=len(jobs))

        def on_event(event: RolloutEvent) -> None:
            if event.kind is EventKind.PHASE:
                phases[id(event.job)] = event.phase
            elif event.kind in (EventKind.STORED, EventKind.FAILED, EventKind.SKIPPED):
                phases.pop(id(event.job), None)
                bars.advance(bar)
            elif event.kind is EventKind.RETRYING:
                stderr.print(f"[yellow]again, in a fresh sandbox:[/] {event.job.task.id}: {escape(event.error)}")
            doing = ", ".join(f"{count} {phase}" for phase, count in sorted(Counter(phases.values()).items()))
            bars.update(bar, description=f"{title} [dim]{doing}[/]")

        return await run_rollouts(
            jobs,
            run_id=run_id,
            store=store,
            backend=backend,
            concurrency=config.concurrency,
            environment_retries=config.environment_retries,
            retry_failed=config.retry_failed,
            on_event=on_event,
        )


def summary_table(summaries: Sequence[TrajectorySummary], title: str) -> Table:
    """How episodes ended, a line per task and policy."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("task", "policy", "episodes", "mean reward", "ended", "sampled tokens"):
        table.add_column(heading)
    groups: dict[tuple[str, str], list[TrajectorySummary]] = {}
    for one in summaries:
        groups.setdefault((one.task_id, one.policy), []).append(one)
    for (task, policy), members in groups.items():
        rewards = [one.reward for one in members if one.reward is not None]
        ended = ", ".join(f"{count} {reason}" for reason, count in Counter(one.termination for one in members).items())
        mean = f"{statistics.fmean(rewards):.2f}" if rewards else "—"
        tokens = sum(one.action_tokens for one in members)
        table.add_row(escape(task), policy, str(len(members)), mean, ended, str(tokens))
    return table


def _of_run(store: str, ids: Sequence[str]) -> list[TrajectorySummary]:
    with Store.open(store) as opened:
        return [opened.summary(one) for one in ids]


def _document(run_id: str, report: RolloutReport, summaries: Sequence[TrajectorySummary]) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "trajectories": [asdict(one) for one in summaries],
        "terminations": dict(Counter(one.termination for one in summaries)),
        "failed": {str(index): reason for index, reason in report.failed.items()},
        "skipped": report.skipped,
        "phases": report.phases,
        "seconds": report.seconds,
    }
