"""`agentgym rollout`: let a policy act on tasks, and record what happened."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

import typer
from pydantic import Field, field_validator
from rich.markup import escape
from rich.table import Table

from agentgym.cli.options import config_command
from agentgym.cli.output import emit, progress, stderr
from agentgym.cli.policy import PolicyChoice, load_policy, load_tokenizer
from agentgym.cli.shared import backend_for, default_store, open_registry, usable
from agentgym.errors import AgentGymError, InputError
from agentgym.sandbox import BackendName
from agentgym.store import Store, TrajectorySummary
from agentgym.tasks import Task

if TYPE_CHECKING:
    from agentgym.sandbox.protocol import SandboxBackend
    from agentgym.server.api.models import Summary
    from harness.engine import RolloutReport, Runner
    from harness.jobs import Job
    from harness.policies.protocol import Policy
    from harness.profile import Profile


class RolloutConfig(PolicyChoice):
    """Which policy acts on which tasks, where, and into which store."""

    tasks: list[str] = Field([], description='Task ids or directories, or "all".')
    policy: Literal["model", "gold", "edit", "empty"] = Field(
        "model", description="model: samples; gold: plays the solution; edit: as edit calls; empty: submits at once."
    )
    profile: list[str] = Field(
        [],
        description="Harness profile: a shipped name or a TOML file (default: tiny; with --agent: gateway).",
    )
    agent: str | None = Field(
        None,
        description="Another harness acts through the gateway: mini-swe-agent, or a shell command that starts one.",
    )
    own_sampling: bool = Field(False, description="Sample as the profile says, whatever an --agent asks for.")
    temperature: float | None = Field(None, ge=0, description="Instead of the profile's; 0 is greedy.")
    rollouts: int = Field(1, ge=1, description="Episodes per task.")
    concurrency: int = Field(4, ge=1, description="Episodes at once; with Ray: in each actor.")
    executor: Literal["local", "ray"] = Field(
        "local", description="local: this process; ray: actors, each with a policy."
    )
    actors: int = Field(2, ge=1, description="With Ray: how many.")
    ray_address: str | None = Field(None, description="With Ray: a running cluster's; default: one on this machine.")
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

    @field_validator("profile", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @field_validator("profile")
    @classmethod
    def _each_once(cls, names: list[str]) -> list[str]:
        return list(dict.fromkeys(names))


def register(app: typer.Typer) -> None:
    config_command(app, RolloutConfig, "rollout", positional="tasks")(rollout)


def rollout(config: RolloutConfig, *, as_json: bool) -> None:
    """Let a policy act on tasks in sandboxes; every finished episode is graded and stored at once.

    Ctrl-C stops it: sandboxes are removed, finished trajectories stay, and the same --run-id goes on later.
    """
    tasks = usable_tasks(config, split="all")
    run_id, report = asyncio.run(roll_out(config, tasks))
    summaries = stored(config.store, report.trajectory_ids)
    emit(_document(run_id, report, summaries), summary_table(summaries, f"run {run_id}"), as_json=as_json)
    if report.failed:
        reasons = "\n".join(f"  job {index}: {reason}" for index, reason in sorted(report.failed.items()))
        raise AgentGymError(f"{len(report.failed)} episodes could not be run\n{reasons}")


def usable_tasks(config: RolloutConfig, *, split: str) -> list[Task]:
    """The tasks a config names, of this split and fit for use."""
    return usable(config.tasks, open_registry(config.store), split=split, any_status=config.any_status)


async def roll_out(config: RolloutConfig, tasks: list[Task]) -> tuple[str, RolloutReport]:
    """Run what the config asks for; the run's id, and what it left."""
    run_id = config.run_id or time.strftime("%Y%m%d-%H%M%S")
    if config.executor == "ray":
        from agentgym.cli.workshop import roll_out_on_ray

        report = await roll_out_on_ray(config, tasks, run_id)
    else:
        jobs = make_jobs(config, tasks)
        async with backend_for(config.backend, owner=f"rollout {run_id}") as backend, episode_runner(config) as episode:
            with Store.open(config.store) as store:
                report = await run_jobs(
                    jobs, run_id=run_id, store=store, backend=backend, config=config, episode=episode
                )
    if report.skipped:
        stderr.print(
            f"[dim]{report.skipped} of {len(report.ids)} episodes were in the store already[/]", highlight=False
        )
    return run_id, report


def make_jobs(config: RolloutConfig, tasks: list[Task]) -> list[Job]:
    """The episodes this config asks for; loads the model where one is needed."""
    from harness.jobs import plan
    from harness.policies.edit_script import edit_script
    from harness.policies.scripted import ScriptedPolicy, empty_script, gold_script
    from harness.render import load_renderer

    scripts = {"gold": gold_script, "edit": edit_script, "empty": lambda task, profile: empty_script(profile)}
    renderer = load_renderer(load_tokenizer(config.model, config.tokenizer))
    model = load_policy(config.model, config.policy_version) if config.policy == "model" else None
    jobs: list[Job] = []
    for profile in _profiles(config):

        def scripted(task: Task, profile: Profile = profile) -> Policy:
            return ScriptedPolicy(scripts[config.policy](task, profile), renderer, name=config.policy)

        jobs += plan(tasks, model or scripted, renderer, profile, rollouts=config.rollouts, seed=config.seed)
    return jobs


def _profiles(config: RolloutConfig) -> list[Profile]:
    """The harness profiles of a run; it may mix several."""
    from harness.gateway.agent import load_agent
    from harness.gateway.runner import profile_for
    from harness.profile import load_profile

    if config.agent is not None and config.policy != "model":
        raise InputError(f"a script ({config.policy}) plays in our own harness only", hint="leave out --agent")
    profiles = [load_profile(name) for name in config.profile or ["tiny" if config.agent is None else "gateway"]]
    if config.temperature is not None:
        update = {"temperature": config.temperature}
        profiles = [
            profile.model_copy(update={"sampling": profile.sampling.model_copy(update=update)}) for profile in profiles
        ]
    if config.agent is not None:
        profiles = [profile_for(load_agent(config.agent), profile) for profile in profiles]
    return profiles


@asynccontextmanager
async def episode_runner(config: RolloutConfig) -> AsyncIterator[Runner]:
    """Who runs the episodes: our own loop, or the agent that was named."""
    if config.agent is None:
        from harness.episode import run_episode

        yield run_episode
        return
    from harness.gateway.agent import load_agent
    from harness.gateway.runner import agent_runner

    async with agent_runner(load_agent(config.agent), own_sampling=config.own_sampling) as runner:
        yield runner


async def run_jobs(
    jobs: list[Job],
    *,
    run_id: str,
    store: Store,
    backend: SandboxBackend,
    config: RolloutConfig,
    title: str = "episodes",
    episode: Runner | None = None,
) -> RolloutReport:
    """Run the jobs with a progress bar that says what the episodes are doing. episode: default: our own loop."""
    from harness.engine import EventKind, RolloutEvent, run_rollouts
    from harness.episode import run_episode

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
            episode=episode or run_episode,
        )


def summary_table(summaries: Sequence[TrajectorySummary | Summary], title: str) -> Table:
    """How episodes ended, a line per task and policy; those of a store, or what a server says of its own."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("task", "policy", "episodes", "mean reward", "ended", "sampled tokens"):
        table.add_column(heading)
    groups: dict[tuple[str, str], list[TrajectorySummary | Summary]] = {}
    for one in summaries:
        groups.setdefault((one.task_id, one.policy), []).append(one)
    for (task, policy), members in groups.items():
        rewards = [one.reward for one in members if one.reward is not None]
        ended = ", ".join(f"{count} {reason}" for reason, count in Counter(one.termination for one in members).items())
        mean = f"{statistics.fmean(rewards):.2f}" if rewards else "—"
        tokens = sum(one.action_tokens for one in members)
        table.add_row(escape(task), policy, str(len(members)), mean, ended, str(tokens))
    return table


def stored(store: str, ids: Sequence[str]) -> list[TrajectorySummary]:
    """The columns of these trajectories."""
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
