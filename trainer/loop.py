"""Training over a store that is not growing: warm the critic up, then step until the evidence or the steps run out.

    report = train(TrainConfig(model=..., store=..., output=...), on_event=print)

Each step ends with a checkpoint, or every n-th does (`checkpoint_every`); its line in metrics.jsonl is written after it. A run
that was killed goes on from its newest whole checkpoint, and uses no trajectory twice. (The loop that rolls out meanwhile is
the package `trainer.online`.)
"""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from agentgym.store import Store
from trainer.config import TrainConfig
from trainer.errors import EvidenceError
from trainer.feed import Feed
from trainer.run import OnEvent, TrainEvent, TrainingRun

__all__ = ["OnEvent", "TrainEvent", "TrainReport", "train"]


class TrainReport(BaseModel):
    """What a run did. Losses and fractions are the last step's; None where no step was taken or no critic exists."""

    model_config = ConfigDict(extra="forbid")
    steps: int = Field(description="Policy updates taken by this call.")
    step: int = Field(description="Policy updates taken by the run so far.")
    version: int = Field(description="Policy version reached.")
    checkpoint: Path | None = Field(description="The newest checkpoint; its policy/ can be served.")
    metrics_path: Path
    trajectories_used: int
    trajectories_dropped: dict[str, int] = Field(description="Left out, by reason.")
    tokens: int = Field(description="Action tokens trained on.")
    policy_loss: float | None = None
    value_loss: float | None = None
    kept_fraction: float | None = None
    explained_variance: float | None = None
    effective_sample_size: float | None = None
    kl: float | None = None
    entropy: float | None = None
    seconds: float = 0.0

    @classmethod
    def of(cls, run: TrainingRun, feed: Feed, *, steps: int, metrics: dict[str, float], seconds: float) -> TrainReport:
        return cls(
            steps=steps,
            step=run.state.step,
            version=run.learner.version,
            checkpoint=run.path,
            metrics_path=run.metrics_path,
            trajectories_used=len(run.state.used),
            trajectories_dropped=feed.counts(),
            tokens=run.tokens,
            **{name: metrics.get(name) for name in _LAST},
            seconds=seconds,
        )


_LAST = ("policy_loss", "value_loss", "kept_fraction", "explained_variance", "effective_sample_size", "kl", "entropy")


def train(config: TrainConfig, on_event: OnEvent | None = None) -> TrainReport:
    """Run `config.steps` policy updates. Raises EvidenceError where nothing in the store may teach."""
    started = time.monotonic()
    tell = on_event or _silent
    run = TrainingRun(config, tell)
    feed = _read(config, run)
    if not feed.waiting:
        counted = ", ".join(f"{count} {reason}" for reason, count in feed.counts().items()) or "it is empty"
        raise EvidenceError(
            f"no trajectory in {config.store} may teach ({counted})",
            hint="roll out a model policy first: agentgym rollout",
        )
    run.warm_up(feed.batches())
    taken, metrics = 0, {}
    while taken < config.steps:
        evidence = feed.take(run.learner.version)
        if not evidence and config.passes > 1:
            feed = _read(config, run)
            evidence = feed.take(run.learner.version)
        if not evidence:
            break
        taken += 1
        metrics = run.step(evidence, save=(run.state.step + 1) % config.checkpoint_every == 0)
        dropped = feed.counts()
        run.record({**metrics, "dropped": dropped})
        with Store.open(config.store, create=False) as store:
            run.keep(store, metrics | {f"dropped/{reason}": float(count) for reason, count in dropped.items()})
        tell(TrainEvent("step", run.state.step, taken, config.steps, metrics))
    run.save()
    run.done()
    return TrainReport.of(run, feed, steps=taken, metrics=metrics, seconds=time.monotonic() - started)


def _read(config: TrainConfig, run: TrainingRun) -> Feed:
    """What the store has for the learner as it stands."""
    feed = Feed(config, run.learner.credit, used=run.state.used)
    with Store.open(config.store, create=False) as store:
        feed.read(store, version=run.learner.version)
    feed.close_groups()
    if config.imitate:
        feed.shuffle()
    return feed


def _silent(event: TrainEvent) -> None:
    pass
