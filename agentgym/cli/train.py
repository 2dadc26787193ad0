"""`agentgym train`: from stored evidence to updated weights."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from agentgym.cli.options import config_command
from agentgym.cli.output import emit, progress
from agentgym.errors import InputError
from agentgym.models import resolve
from trainer.config import TrainConfig

if TYPE_CHECKING:
    from trainer.loop import OnEvent, TrainReport


def register(app: typer.Typer) -> None:
    config_command(app, TrainConfig, "train")(train)


def train(config: TrainConfig, *, as_json: bool) -> None:
    """Update a policy from the trajectories in a store (SAO by default) and save checkpoints.

    A run that was stopped goes on from its newest whole checkpoint.
    """
    from trainer.loop import train as run

    config = with_directories(config)
    with training_bars() as on_event:
        report = run(config, on_event)
    emit(report.model_dump(mode="json"), report_table(report), as_json=as_json)


def with_directories(config: TrainConfig) -> TrainConfig:
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
