"""`agentgym train`: from stored evidence to updated weights."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer
from rich.table import Table

from agentgym.cli.options import config_command
from agentgym.cli.output import emit, progress
from agentgym.cli.policy import load_tokenizer, quiet_transformers
from agentgym.cli.shared import backend_for, open_registry, usable
from agentgym.errors import InputError
from agentgym.models import resolve
from agentgym.store import Store
from trainer.config import TrainConfig
from trainer.online.config import OnlineConfig

if TYPE_CHECKING:
    from trainer.loop import OnEvent, TrainReport

ConfigT = TypeVar("ConfigT", bound=TrainConfig)


def register(app: typer.Typer) -> None:
    config_command(app, OnlineConfig, "train")(train)


def train(config: OnlineConfig, *, as_json: bool) -> None:
    """Update a policy (SAO by default) and save checkpoints.

    Offline, from the trajectories in a store; or rolling out at the same time (--mode async) or in turn (--mode sync).
    A run that was stopped goes on from its newest whole checkpoint. Under torchrun the learner is shared by its processes.
    """
    config = with_directories(config)
    if int(os.environ.get("RANK", "0")):  # torchrun started several: the first one leads and reports
        from trainer.run import follow

        follow(config)
        return
    with training_bars() as on_event:
        report = train_offline(config, on_event) if config.mode == "offline" else asyncio.run(_online(config, on_event))
    emit(report.model_dump(mode="json"), report_table(report), as_json=as_json)


def train_offline(config: TrainConfig, on_event: OnEvent) -> TrainReport:
    from trainer.loop import train as run

    return run(config, on_event)


async def _online(config: OnlineConfig, on_event: OnEvent) -> TrainReport:
    quiet_transformers()
    from trainer.online.assemble import assembled
    from trainer.online.loop import train_online

    registry = open_registry(config.store)
    tasks = usable(config.tasks, registry, split=config.task_split, any_status=config.any_status)
    held_out = (
        usable(config.eval_tasks, registry, split="all", any_status=config.any_status) if config.eval_tasks else []
    )
    tokenizer = load_tokenizer(str(config.model), None)
    async with backend_for(config.backend, owner=f"train {config.run_id}") as backend:
        with Store.open(config.store) as store:
            async with assembled(config, tasks, held_out, tokenizer, backend, store) as parts:
                return await train_online(config, parts, store, on_event)


def with_directories(config: ConfigT) -> ConfigT:
    """The config with model names (shipped, or of a hub) turned into directories, as `rollout --model` takes them.

    Raises InputError for a server: weights are needed.
    """
    found: dict[str, Path] = {}
    for name, model in (("model", config.model), ("reference", config.reference)):
        if model is None or model.is_dir():
            continue
        # A Path has swallowed one of a URL's slashes.
        if re.match(r"https?:/", str(model)):
            raise InputError(
                f"{name}: {model} is a server, and training needs weights", hint="name its model directory"
            )
        found[name] = Path(resolve(str(model)))
    return config.model_copy(update=found)


@contextlib.contextmanager
def training_bars() -> Iterator[OnEvent]:
    """Progress bars fed by the training loop's events: one per stage."""
    from trainer.loop import TrainEvent

    with progress() as bars:
        stages = {}

        def on_event(event: TrainEvent) -> None:
            if not event.total:
                return
            if event.stage not in stages:
                stages[event.stage] = bars.add_task(f"train: {event.stage}", total=event.total)
            bars.update(stages[event.stage], completed=event.done, total=event.total)

        yield on_event


def report_table(report: TrainReport) -> Table:
    """What a run did, one line a fact."""
    table = Table(title="training", title_justify="left", box=None, show_header=False, pad_edge=False)
    for name, value in report.model_dump(mode="json").items():
        table.add_row(name.replace("_", " "), f"{value:.4g}" if isinstance(value, float) else str(value))
    return table
