"""A training run on disk and in memory: the learner, where it stands, and what each step leaves behind.

`trainer.loop` feeds it from a store that is not growing; the online loop from one that is. Both get the same step: update,
checkpoint, one line in metrics.jsonl.

Under torchrun every process makes one. Rank 0's is driven by such a loop and tells the others what it is about to do; theirs
`follow`, and do the same with the same evidence, because the weights are sharded over all of them.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from agentgym.store import Store
from trainer import checkpoint
from trainer.batch import Batch
from trainer.checkpoint import TrainState
from trainer.config import TrainConfig
from trainer.errors import TrainConfigError
from trainer.evidence import Evidence
from trainer.learner import Learner
from trainer.models import load_policy
from trainer.ranks import Ranks
from trainer.trace import by_trajectory

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrainEvent:
    """What a run reports while it works.

    stage: "load" | "warmup" | "critic" | "policy" | "checkpoint" | "step", and the online loop's. done, total: tokens (steps
    for "step"). metrics: of a finished step, else empty.
    """

    stage: str
    step: int
    done: int = 0
    total: int = 0
    metrics: dict[str, float] = field(default_factory=dict)


OnEvent = Callable[[TrainEvent], None]


class TrainingRun:
    """state: where it stands. source: the directory its tokenizer files come from. path: the newest checkpoint."""

    def __init__(self, config: TrainConfig, on_event: OnEvent) -> None:
        """Goes on from the newest whole checkpoint in `config.output`, or starts from `config.model`."""
        self.config = config
        self.tell = on_event
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        self.tell(TrainEvent("load", 0))
        self.ranks = Ranks.started(config.device)
        self.learner, self.state, self.source = _open(config, self.ranks)
        self.path = checkpoint.newest(config.output) if self.state.step else None
        config.output.mkdir(parents=True, exist_ok=True)
        self.metrics_path = config.output / "metrics.jsonl"
        self.tokens = 0
        self._last: Batch | None = None
        self._saved = True
        if self.ranks.leads:
            _forget_after(self.metrics_path, self.state.step)

    def follow(self) -> None:
        """Do what rank 0 does, until it is `done`."""
        while work := self.ranks.hear():
            name, *given = work
            getattr(self, name)(*given)

    def done(self) -> None:
        """Tell the others, if there are any, that nothing more is coming."""
        self._together(None)

    def _together(self, *work: object) -> None:
        if self.ranks.leads:
            self.ranks.tell(work if work[0] else None)

    def weights(self) -> dict[str, Tensor]:
        """The policy as it is served; see `Learner.weights`."""
        self._together("weights")
        return self.learner.weights()

    def adapters(self) -> dict[str, Tensor]:
        """What of the policy is an adapter's; see `Learner.adapters`."""
        self._together("adapters")
        return self.learner.adapters()

    def score(self, token_ids: Tensor, first: int) -> Tensor:
        """What the policy says of a sequence; see `Learner.score`."""
        self._together("score", token_ids, first)
        return self.learner.score(token_ids, first=first)

    def warm_up(self, batches: list[list[Evidence]]) -> None:
        """Spread the critic-only updates that are left over these batches."""
        self._together("warm_up", batches)
        left = self.config.value_warmup_steps - self._warmed_up
        if self.learner.value is None or left <= 0:
            return
        for index, evidence in enumerate(batches):
            updates = left // len(batches) + (index < left % len(batches))
            if updates:
                self.learner.warm_up(self._batch(evidence), updates, self._progress("warmup"))

    def step(self, evidence: list[Evidence], save: bool = True) -> dict[str, float]:
        """One update from this evidence, then a checkpoint; the metrics. Raises DivergenceError, CheckpointError."""
        self._together("step", evidence, save)
        started = time.monotonic()
        batch = self._batch(evidence)
        metrics = self.learner.step(batch, self._progress(None))
        state = self.state
        state.used += [item.trajectory_id for item in evidence]
        state.step, state.version, state.warmup_done = state.step + 1, self.learner.version, self._warmed_up
        self.tokens += batch.chain.tokens
        metrics["seconds"] = time.monotonic() - started
        self._saved = False
        if save:
            self._save()
        return metrics

    def save(self) -> None:
        """Checkpoint where the run stands, unless that is done. Raises CheckpointError."""
        if not self._saved:
            self._together("save")
            self._save()

    def _save(self) -> None:
        self.tell(TrainEvent("checkpoint", self.state.step))
        self.path = checkpoint.save(
            self.config.output, self.learner, self.state, source=self.source, keep=self.config.keep_checkpoints
        )
        self.source = self.path / "policy"  # the one before may be removed by the next
        self._saved = True

    def keep(self, store: Store, numbers: dict[str, float]) -> None:
        """Tell the store what the step just taken measured and, where asked for, what it thought of each token."""
        name, step = self.config.recorded_as, self.state.step
        store.put_metrics(name, step, numbers)
        if self.config.keep_token_credit and self._last is not None and self.learner.tokens is not None:
            store.put_credit(name, step, self.learner.version - 1, by_trajectory(self._last, self.learner.tokens))

    def record(self, line: dict[str, Any]) -> None:
        """Append the line of the step just taken to metrics.jsonl."""
        with self.metrics_path.open("a") as lines:
            lines.write(json.dumps({"step": self.state.step, **line}) + "\n")

    @property
    def _warmed_up(self) -> int:
        return self.learner.value.warmup_done if self.learner.value is not None else 0

    def _batch(self, evidence: list[Evidence]) -> Batch:
        """The last one is remembered: what warmed the critic up is often the first step's batch, and the critic keeps what
        it computed for it."""
        if self._last is None or list(self._last.evidence) != evidence:
            self._last = Batch.of(evidence, micro_batch_tokens=self.config.micro_batch_tokens)
        return self._last

    def _progress(self, stage: str | None) -> Callable[[str, int, int], None]:
        step = self.state.step + (stage is None)
        return lambda named, done, total: self.tell(TrainEvent(stage or named, step, done, total))


def follow(config: TrainConfig) -> None:
    """The part of a process that torchrun started and that does not lead."""
    TrainingRun(config, lambda event: None).follow()


def _open(config: TrainConfig, ranks: Ranks) -> tuple[Learner, TrainState, Path]:
    found = checkpoint.newest(config.output)
    if found is not None and not config.resume:
        raise TrainConfigError(
            f"{config.output} holds the checkpoints of another run (newest: {found.name}) and resume = false",
            hint="name another output directory, or remove this one",
        )
    if found is not None:
        _log.info("going on from %s; the model %s is what this run began with, and is not read", found, config.model)
        learner, state = checkpoint.load(found, config, ranks)
        return learner, state, found / "policy"
    if torn := sorted(path.name for path in config.output.glob("step-*")):
        _log.warning("no checkpoint in %s is whole (%s): the run begins anew", config.output, ", ".join(torn))
    torch.manual_seed(config.seed)
    learner = Learner(load_policy(config.model), config, version=config.model_version, ranks=ranks)
    return learner, TrainState.begin(config), config.model


def _forget_after(path: Path, step: int) -> None:
    """Lines of steps whose checkpoint was lost are taken again, and so is that of a line which was cut off; drop them."""
    if not path.exists():
        return
    lines = [line for line in path.read_text(errors="replace").splitlines() if _step_of(line) <= step]
    partial = path.with_suffix(".partial")
    partial.write_text("".join(f"{line}\n" for line in lines))
    os.replace(partial, path)


def _step_of(line: str) -> float:
    try:
        return json.loads(line)["step"]
    except (ValueError, KeyError, TypeError):
        return math.inf
