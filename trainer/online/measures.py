"""What both sides of an online run did, one set of numbers per update, to every place where people look.

Written to metrics.jsonl (by the training run), to the store (`Store.metrics`) and to TensorBoard where it is installed:
docs/training.md says what each means.
"""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trainer.online.rollouts import Tally


@dataclass(slots=True)
class Clock:
    """How a step's wall time was spent. learner_idle: seconds the learner waited for a batch."""

    started: float = field(default_factory=time.monotonic)
    learner_idle: float = 0.0
    publish: float = 0.0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


def rollout_measures(tally: Tally, clock: Clock, *, concurrency: int) -> dict[str, float]:
    """The rollouts' side since the last update."""
    seconds = max(clock.seconds, 1e-9)
    found = {
        "rollout_episodes": float(tally.episodes),
        "rollout_tokens_per_second": tally.action_tokens / seconds,
        "rollout_episodes_per_hour": 3600 * tally.episodes / seconds,
        "rollout_idle_fraction": min(tally.idle / (seconds * concurrency), 1.0),
        "rollout_retries": float(tally.retries),
        "rollout_worker_deaths": float(tally.worker_deaths),
        "learner_idle_fraction": min(clock.learner_idle / seconds, 1.0),
        "publish_seconds": clock.publish,
        "wall_seconds": seconds,
    }
    if tally.episodes:
        attempts = tally.episodes + tally.retries
        spoilt = tally.terminations["environment_failure"] + tally.retries
        found["environment_failure_rate"] = spoilt / attempts
        found["policy_failure_rate"] = tally.terminations["policy_failure"] / tally.episodes
        found["turns_mean"] = float(np.mean(tally.turns))
        for name, count in tally.terminations.items():
            found[f"termination/{name}"] = count / tally.episodes
        for name, spent in tally.phases.items():
            found[f"phase_seconds/{name}"] = spent / tally.episodes
    if tally.rewards:
        found["train_reward"] = float(np.mean(tally.rewards))
        found["train_success"] = float(np.mean([reward >= 1.0 for reward in tally.rewards]))
    return found


class Board:
    """TensorBoard files in `directory`; silent where tensorboard is not installed."""

    def __init__(self, directory: Path | None) -> None:
        self._writer: Any = None
        if directory is not None and importlib.util.find_spec("tensorboard") is not None:
            from torch.utils.tensorboard.writer import SummaryWriter

            self._writer = SummaryWriter(str(directory))

    def write(self, step: int, values: dict[str, float]) -> None:
        if self._writer is None:
            return
        for name, value in values.items():
            self._writer.add_scalar(_tag(name), value, step)
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _tag(name: str) -> str:
    """Into the group TensorBoard shows it under."""
    groups = {
        "rollout": (
            "rollout_",
            "termination/",
            "environment_",
            "policy_failure",
            "turns_",
            "train_",
            "tasks_",
            "horizon",
            "phase_seconds/",
        ),
        "held_out": ("held_out_",),
        "critic": ("value_", "explained_"),
        "ratio": ("ratio_", "kept_", "effective_", "logprob_gap", "kl", "staleness"),
        "dropped": ("dropped/",),
        "time": ("learner_idle", "publish_", "wall_", "seconds"),
    }
    for group, prefixes in groups.items():
        if name.startswith(prefixes):
            return f"{group}/{name.split('/', 1)[-1] if name.startswith('dropped/') else name}"
    return f"policy/{name}"
