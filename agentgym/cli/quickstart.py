"""`agentgym quickstart`: the whole loop on real input, small enough for a laptop.

    model → sandboxes → gold, empty and model episodes → store → check → one SAO step → replay

Every part is the real one: the same harness, grader, store and trainer as in a long run.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from pydantic import Field
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from agentgym.cli.images import build_images
from agentgym.cli.options import config_command
from agentgym.cli.output import emit, program, progress, stderr
from agentgym.cli.rollout import RolloutConfig, make_jobs, run_jobs, summary_table
from agentgym.cli.shared import backend_for, open_registry, resolve_tasks
from agentgym.cli.store import checked
from agentgym.cli.train import training_bars
from agentgym.config import Config
from agentgym.errors import AgentGymError, InputError
from agentgym.models import DEFAULT_MODEL, resolve
from agentgym.sandbox import BackendName
from agentgym.store import Store, TrajectoryFilter, TrajectorySummary
from agentgym.tasks import Task
from trainer.config import TrainConfig

if TYPE_CHECKING:
    from harness.replay import ReexecuteReport
    from trainer.loop import TrainReport


class QuickstartConfig(Config):
    """The main job at its smallest."""

    output: Path = Field(Path("runs/quickstart"), description="Directory for the store, checkpoint and summary.json.")
    model: str = Field(DEFAULT_MODEL, description="Shipped name, transformers directory or hub id.")
    tasks: list[str] = Field(
        ["tutorial-duration", "multipart-2.0.0", "parse-1.22.1"], description="Task ids or directories."
    )
    rollouts: int = Field(2, ge=1, description="Episodes of the model per task.")
    backend: BackendName = Field(
        "auto", description="Where commands run; auto: Docker if an engine answers, else local."
    )
    seed: int = Field(0, description="Seed of the rollouts and the trainer.")


def register(app: typer.Typer) -> None:
    config_command(app, QuickstartConfig, "quickstart", positional="tasks")(quickstart)


def quickstart(config: QuickstartConfig, *, as_json: bool) -> None:
    """Run the whole loop on real input: rollouts, grading, one SAO step, replay. Writes summary.json."""
    started = time.monotonic()
    run_id = time.strftime("quickstart-%Y%m%d-%H%M%S")
    url = str(config.output / "store.db")
    _stage(1, "the model")
    model = resolve(config.model)
    if not isinstance(model, Path):
        raise InputError("the quickstart trains the model it rolls out, so it needs a directory, not a server")
    stderr.print(f"{config.model} in {model}")

    tasks = resolve_tasks(config.tasks, open_registry(url))
    backend_name = asyncio.run(_roll_out(config, tasks, run_id, url))
    with Store.open(url) as store:
        summaries = list(store.query(TrajectoryFilter(run_id=run_id)))

    _stage(4, "is every token where it was sampled? (store check)")
    check = checked(url, TrajectoryFilter())
    _stage(5, "one SAO step from the store")
    report = _train(config, model, run_id, url)
    _stage(6, "replay: the actions in fresh sandboxes, the logprobs from the recorded tokens")
    chosen = _longest(summaries, "model"), _longest(summaries, "gold")
    replays, gap = asyncio.run(_replay(url, chosen, model, backend_name))

    summary = {
        "gold_reward": _mean_reward(summaries, "gold"),
        "empty_reward": _mean_reward(summaries, "empty"),
        "model_reward": _mean_reward(summaries, "model"),
        "model_trajectories": sum(one.policy == "model" for one in summaries),
        "terminations": dict(Counter(one.termination.value for one in summaries if one.policy == "model")),
        "sequences_exact": check.ok,
        "logprob_gap": gap,
        "sao": {
            "policy_loss": report.policy_loss,
            "value_loss": report.value_loss,
            "kept_fraction": report.kept_fraction,
            "tokens": report.tokens,
        },
        "replay": {
            "steps": sum(len(one.steps) for one in replays),
            "executed": sum(step.executed for one in replays for step in one.steps),
            "identical": sum(one.identical for one in replays),
        },
        "checkpoint": str(report.checkpoint),
        "run_id": run_id,
        "sandbox": backend_name,
        "seconds": round(time.monotonic() - started, 1),
    }
    path = config.output / "summary.json"
    path.write_text(json.dumps(summary, indent=2) + "\n")
    emit(summary, _closing(summary, summaries, url, path), as_json=as_json)
    if faults := list(_faults(summary)):
        raise AgentGymError("the loop ran, but not as it must: " + "; ".join(faults))


def _stage(number: int, text: str) -> None:
    stderr.rule(f"[bold]{number}/6[/] {text}", align="left")


async def _roll_out(config: QuickstartConfig, tasks: list[Task], run_id: str, url: str) -> str:
    _stage(2, "sandboxes")
    async with backend_for(config.backend, owner=run_id) as backend:
        stderr.print(f"sandboxes: {backend.name}")
        await build_images(tasks, backend)
        _stage(3, "episodes: the solution, nothing at all, and the model")
        with Store.open(url) as store:
            for policy, rollouts in (("gold", 1), ("empty", 1), ("model", config.rollouts)):
                wanted = RolloutConfig.model_validate(
                    {
                        "tasks": config.tasks,
                        "policy": policy,
                        "model": config.model,
                        "rollouts": rollouts,
                        "seed": config.seed,
                        "store": url,
                        "concurrency": 2 * len(tasks),
                    }
                )
                jobs = make_jobs(wanted, tasks)
                await run_jobs(jobs, run_id=run_id, store=store, backend=backend, config=wanted, title=policy)
                await jobs[0].policy.close()
    return backend.name


def _train(config: QuickstartConfig, model: Path, run_id: str, url: str) -> TrainReport:
    from trainer.loop import train

    output = config.output / "checkpoints"
    shutil.rmtree(output, ignore_errors=True)  # of the last quickstart: a fresh run starts from the model again
    settings = TrainConfig.model_validate(
        {
            "model": model,
            "store": url,
            "output": output,
            "run_id": run_id,
            "name": run_id,
            "steps": 1,
            "value_warmup_steps": 1,
            "critic_layers": 2,
            "resume": False,
            "seed": config.seed,
        }
    )
    with training_bars() as on_event:
        return train(settings, on_event)


def _longest(summaries: Sequence[TrajectorySummary], policy: str, *, failed: bool = False) -> str:
    """The trajectory of this policy with most steps: the one with most to go wrong in a replay. failed: where any did."""
    its = [one for one in summaries if one.policy == policy]
    wanted = [one for one in its if failed and not one.reward] or its
    return max(wanted, key=lambda one: (one.steps, one.id)).id


async def _replay(
    url: str, trajectories: Sequence[str], model: Path, backend_name: str
) -> tuple[list[ReexecuteReport], float]:
    """Run each trajectory's steps again; and the largest logprob gap of the first one's tokens."""
    from harness.replay import profile_of, reexecute, rescore

    registry = open_registry(url)
    with Store.open(url) as store:
        records = [store.get(one) for one in trajectories]
        profiles = [profile_of(record, store) for record in records]
    replays: list[ReexecuteReport] = []
    async with backend_for(backend_name, owner="quickstart replay") as backend:
        with progress() as bars:
            bar = bars.add_task("running steps again", total=len(records))
            for record, profile in zip(records, profiles, strict=True):
                task = registry.get(record.task_digest).load()
                replays.append(await reexecute(record, task, backend, profile=profile))
                bars.advance(bar)
    with stderr.status("computing the logprobs again with the weights that sampled them…"):
        gap = rescore(records[0], model).max_gap
    return replays, gap


def _mean_reward(summaries: Sequence[TrajectorySummary], policy: str) -> float | None:
    """None unless every episode of the policy has a verdict."""
    rewards = [one.reward for one in summaries if one.policy == policy]
    known = [reward for reward in rewards if reward is not None]
    return sum(known) / len(known) if known and len(known) == len(rewards) else None


def _faults(summary: dict[str, Any]) -> list[str]:
    """What a sound loop never shows."""
    replay = summary["replay"]
    rules = {
        f"gold must get reward 1 (got {summary['gold_reward']})": summary["gold_reward"] == 1.0,
        f"doing nothing must get reward 0 (got {summary['empty_reward']})": summary["empty_reward"] == 0.0,
        "the token records are not exact": summary["sequences_exact"],
        f"logprobs differ by {summary['logprob_gap']:.1e} on replay": summary["logprob_gap"] <= 1e-3,
        f"only {replay['identical']} of {replay['steps']} steps replay the same": replay["identical"]
        == replay["steps"],
    }
    return [text for text, holds in rules.items() if not holds]


def _signal(summary: dict[str, Any]) -> str:
    """Why the losses may be exactly zero: equal rewards of 0 and a critic that starts at 0 leave nothing to credit."""
    return "" if summary["model_reward"] else " (no reward to credit: the weights rightly stay as they are)"


def _closing(summary: dict[str, Any], summaries: Sequence[TrajectorySummary], url: str, path: Path) -> Group:
    facts = Table(box=None, show_header=False, pad_edge=False)
    sao, replay = summary["sao"], summary["replay"]
    for name, value in (
        (
            "the solution earns",
            f"{summary['gold_reward']} on every task, through the same tools and grader as the model",
        ),
        ("doing nothing earns", f"{summary['empty_reward']}"),
        (
            "the model earned",
            f"{summary['model_reward']} over {summary['model_trajectories']} episodes (135M parameters)",
        ),
        ("token records", "exact" if summary["sequences_exact"] else "NOT EXACT"),
        (
            "one SAO step",
            f"policy loss {sao['policy_loss']:.4g}, value loss {sao['value_loss']:.4g}, "
            f"{sao['kept_fraction']:.0%} of {sao['tokens']} sampled tokens kept{_signal(summary)}",
        ),
        (
            "replay",
            f"{replay['identical']} of {replay['steps']} steps came back the same ({replay['executed']} ran a command)",
        ),
        ("logprobs, recomputed", f"largest gap {summary['logprob_gap']:.1e}"),
        ("sandbox", summary["sandbox"]),
        ("time", f"{summary['seconds']:.0f} s; details in {path}"),
    ):
        facts.add_row(name, value)
    failed = _longest(summaries, "model", failed=True)[:8]
    called, of = program(), f"--store {shlex.quote(url)}"
    steps = (
        "read what the model sampled, token by token, in a browser:",
        f"  {called} serve {of}",
        f"  http://127.0.0.1:8000/trajectories/{failed}/tokens#call-0",
        "or its steps here:",
        f"  {called} store show {failed} {of}",
        "and let it act again (a minute or two):",
        f"  {called} rollout tutorial-duration --any-status {of}",
    )
    return Group(summary_table(summaries, "episodes"), "", facts, "", *map(escape, steps))
