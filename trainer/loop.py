"""A training run over a store: warm the critic up, then step until the evidence or the steps run out.

    report = train(TrainConfig(model=..., store=..., output=...), on_event=print)

Each step ends with a checkpoint; its line in metrics.jsonl is written after it. A run that was killed goes on from
its newest whole checkpoint, and uses no trajectory twice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, Field

from trainer import checkpoint
from trainer.batch import Batch
from trainer.checkpoint import TrainState
from trainer.config import TrainConfig
from trainer.errors import EvidenceError
from trainer.feed import Feed
from trainer.learner import Learner
from trainer.models import load_policy


@dataclass(frozen=True, slots=True)
class TrainEvent:
    """What a run reports while it works.

    stage: "load" | "warmup" | "critic" | "policy" | "checkpoint" | "step". done, total: tokens (steps for "step").
    metrics: of a finished step, else empty.
    """

    stage: str
    step: int
    done: int = 0
    total: int = 0
    metrics: dict[str, float] = field(default_factory=dict)


OnEvent = Callable[[TrainEvent], None]


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


def train(config: TrainConfig, on_event: OnEvent | None = None) -> TrainReport:
    """Run `config.steps` policy updates. Raises EvidenceError where nothing in the store may teach."""
    started = time.monotonic()
    tell = on_event or _silent
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    config.output.mkdir(parents=True, exist_ok=True)
    tell(TrainEvent("load", 0))
    learner, state, source = _open(config)
    feed = Feed(config, learner.credit, version=learner.version, used=state.used)
    if not feed.waiting:
        counted = (
            ", ".join(f"{count} {reason}" for reason, count in sorted(feed.drops.items()) if count) or "it is empty"
        )
        raise EvidenceError(
            f"no trajectory in {config.store} may teach ({counted})",
            hint="roll out a model policy first: agentgym rollout",
        )
    metrics_path = config.output / "metrics.jsonl"
    _forget_after(metrics_path, state.step)
    _warm_up(learner, feed, config, state.step, tell)

    taken, tokens, metrics = 0, 0, {}
    path = checkpoint.newest(config.output) if state.step else None
    while taken < config.steps and (evidence := feed.take(learner.version)):
        step_started = time.monotonic()
        batch = Batch.of(evidence, micro_batch_tokens=config.micro_batch_tokens)
        metrics = learner.step(batch, lambda stage, done, total: tell(TrainEvent(stage, state.step + 1, done, total)))
        taken, tokens = taken + 1, tokens + batch.chain.tokens
        state.used += [item.trajectory_id for item in evidence]
        state.step, state.version, state.warmup_done = state.step + 1, learner.version, _warmed_up(learner)
        metrics["seconds"] = time.monotonic() - step_started
        tell(TrainEvent("checkpoint", state.step))
        path = checkpoint.save(config.output, learner, state, source=source, keep=config.keep_checkpoints)
        with metrics_path.open("a") as lines:
            lines.write(json.dumps({"step": state.step, **metrics, "dropped": _counts(feed)}) + "\n")
        tell(TrainEvent("step", state.step, taken, config.steps, metrics))
    return TrainReport(
        steps=taken,
        step=state.step,
        version=learner.version,
        checkpoint=path,
        metrics_path=metrics_path,
        trajectories_used=len(state.used),
        trajectories_dropped=_counts(feed),
        tokens=tokens,
        **{name: metrics.get(name) for name in _LAST},
        seconds=time.monotonic() - started,
    )


_LAST = ("policy_loss", "value_loss", "kept_fraction", "explained_variance", "effective_sample_size", "kl", "entropy")


def _open(config: TrainConfig) -> tuple[Learner, TrainState, Path]:
    """The learner, where its run stands, and the directory its tokenizer files come from."""
    found = checkpoint.newest(config.output) if config.resume else None
    if found is not None:
        learner, state = checkpoint.load(found, config)
        return learner, state, found / "policy"
    torch.manual_seed(config.seed)
    learner = Learner(load_policy(config.model), config, version=config.model_version)
    state = TrainState(version=config.model_version, credit=config.credit, critic_layers=config.critic_layers)
    return learner, state, config.model


def _warm_up(learner: Learner, feed: Feed, config: TrainConfig, step: int, tell: OnEvent) -> None:
    """Spread the critic-only updates over what waits; a run that was resumed does what is left of them."""
    left = config.value_warmup_steps - _warmed_up(learner)
    if learner.value is None or left <= 0:
        return
    batches = feed.batches()
    for index, evidence in enumerate(batches):
        updates = left // len(batches) + (index < left % len(batches))
        if updates:
            batch = Batch.of(evidence, micro_batch_tokens=config.micro_batch_tokens)
            learner.warm_up(batch, updates, lambda _, done, total: tell(TrainEvent("warmup", step, done, total)))


def _warmed_up(learner: Learner) -> int:
    return learner.value.warmup_done if learner.value is not None else 0


def _forget_after(path: Path, step: int) -> None:
    """Lines of steps whose checkpoint was lost are taken again; drop them."""
    if path.exists():
        lines = [line for line in path.read_text().splitlines() if json.loads(line)["step"] <= step]
        path.write_text("".join(f"{line}\n" for line in lines))


def _counts(feed: Feed) -> dict[str, int]:
    return {reason.value: count for reason, count in sorted(feed.drops.items()) if count}


def _silent(event: TrainEvent) -> None:
    pass
