"""SAO's asynchronous loop against synchronous GRPO: trajectories used per hour, with tools whose latency has a heavy tail.

Real sandboxes, the real harness, store, learner and loop; `concurrency` episodes at once in both. The policy is a script whose
commands sleep for times drawn from a log-normal (the same draws for the same episode in both), because what is measured is
waiting: GRPO's batch waits for its slowest episode, SAO's does not. The learner takes real steps on a small model. The verdict on
the empty patch, the same every time, is asked for once.

The first `warm` updates of either arm are left out: an async run's first batches are the episodes that happened to be short, and
what is claimed is its steady state. Both arms are waited for, not computed with: `processor_fraction` says how much of the
machine's processor time they took, and where that comes near 1 the ratio measures the machine and not the loop.

ratio: trajectories per hour, async over sync. staleness_max: in versions, over all tokens trained on; never above
`max_staleness`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

import harness.workplace
from agentgym.models import pull
from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import SandboxBackend
from agentgym.store import Store
from agentgym.store.records import FinishReason, Int32Array, PolicyKind, Sampling, VersionSpan
from agentgym.tasks import Task, load_task
from agentgym.verify import Grade
from harness.policies.protocol import Generation
from harness.profile import Profile, load_profile
from harness.render import GuardedRenderer, assistant_turn, load_renderer
from trainer.online.config import OnlineConfig
from trainer.online.loop import Parts, train_online
from trainer.online.rollouts import Acting
from trainer.run import TrainEvent, TrainingRun

ARMS = {
    "sync": {"mode": "sync", "credit": "grpo", "objective": "grpo", "group_size": 8},
    "async": {"mode": "async", "credit": "sao-gae", "objective": "sao", "group_size": 1},
}
REPOSITORY = Path(__file__).resolve().parents[1]
LONGEST = 120.0
"""No command sleeps longer, in seconds."""
LIKELY = -10.8
"""About the logprob that an untrained model of this vocabulary gives every token, so that no ratio is extreme."""


class Sleeper:
    """Calls `sleep` in every turn, for a time that follows from the episode's seed, then submits."""

    name, model, kind, context_length = "sleeper", "", PolicyKind.MODEL, 1 << 20

    def __init__(self, renderer: GuardedRenderer, *, turns: int, median: float, sigma: float) -> None:
        self.version = 0
        self._renderer, self._turns, self._median, self._sigma = renderer, turns, median, sigma
        self._calls: Counter[str] = Counter()

    async def generate(
        self,
        prompt_token_ids: Int32Array,
        *,
        sampling: Sampling,
        max_tokens: int,
        stop_token_ids: Sequence[int],
        episode_id: str,
    ) -> Generation:
        turn = self._calls[episode_id]
        self._calls[episode_id] += 1
        seconds = np.random.default_rng(sampling.seed).lognormal(np.log(self._median), self._sigma)
        call = ("submit", {}) if turn == self._turns else ("bash", {"command": f"sleep {min(seconds, LONGEST):.2f}"})
        tokens = np.asarray(assistant_turn(self._renderer, "", [call]), np.int32)
        logprobs = np.full(len(tokens), LIKELY, np.float32)
        return Generation(tokens, logprobs, (VersionSpan(self.version, 0, len(tokens)),), FinishReason.STOP)

    async def end_episode(self, episode_id: str) -> None:
        self._calls.pop(episode_id, None)

    async def close(self) -> None: ...


class Told:
    """The policy is a script: a publish tells it the version."""

    def __init__(self, policy: Sleeper) -> None:
        self.policy = policy

    async def publish(self, run: TrainingRun) -> float:
        self.policy.version = run.learner.version
        return 0.0


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--updates", type=int, default=7)
    parser.add_argument("--warm", type=int, default=2, help="of them, not measured")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--median", type=float, default=3.0, help="of a command's latency, seconds")
    parser.add_argument("--sigma", type=float, default=1.5, help="of its logarithm")
    parser.add_argument("--backend", default="auto", help="docker, local, kubernetes")
    given = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(pull())
    task = load_task(REPOSITORY / "environments" / "tutorial-duration")
    tiny = load_profile("tiny")
    profile = tiny.model_copy(update={"observation": tiny.observation.model_copy(update={"timeout_s": 2 * LONGEST})})
    backend = await open_backend(given.backend, owner="bench-async")
    found = {}
    with tempfile.TemporaryDirectory(prefix="agentgym-bench-") as scratch:
        model = small_model(Path(scratch) / "model", tokenizer)
        try:
            remember_verdicts()
            await backend.ensure_image(task.image)
            for name, arm in ARMS.items():
                policy = Sleeper(load_renderer(tokenizer), turns=given.turns, median=given.median, sigma=given.sigma)
                found[name] = await run(name, arm, given, Path(scratch), model, task, backend, profile, policy)
        finally:
            await backend.close()
    a, b = found["async"], found["sync"]
    result = {
        "bench": "async",
        "ours": a["per_hour"],
        "anchor": b["per_hour"],
        "anchor_name": "synchronous GRPO (same loop, mode sync)",
        "unit": "trajectories/h",
        "ratio": a["per_hour"] / b["per_hour"],
        "staleness_max": a["staleness_max"],
        "max_staleness": a["bound"],
        "processor_fraction": max(a["processor_fraction"], b["processor_fraction"]),
        "dropped": a["dropped"],
        "sandbox": backend.name,
        "concurrency": given.concurrency,
    }
    table = Table("", "SAO, async", "GRPO, sync", title=f"{given.concurrency} episodes at once", title_justify="left")
    for fact in (
        "per_hour",
        "trajectories",
        "seconds",
        "rollouts_idle",
        "learner_idle",
        "staleness_max",
        "dropped",
        "processor_fraction",
    ):
        table.add_row(fact.replace("_", " "), f"{a[fact]:.3g}", f"{b[fact]:.3g}")
    Console(stderr=True).print(table)
    print(json.dumps(result))


async def run(
    name: str,
    arm: dict[str, object],
    given: argparse.Namespace,
    scratch: Path,
    model: Path,
    task: Task,
    backend: SandboxBackend,
    profile: Profile,
    policy: Sleeper,
) -> dict[str, float]:
    config = OnlineConfig.model_validate(
        {
            "model": model,
            "store": f"sqlite:///{scratch / f'{name}.db'}",
            "output": scratch / name,
            "steps": given.updates,
            "batch_trajectories": given.batch,
            "concurrency": given.concurrency,
            "value_warmup_steps": 1,
            "keep_checkpoints": 1,
            "tensorboard": False,
            **arm,
        }
    )
    parts = Parts([task], Acting(policy, policy._renderer, profile), backend, Told(policy))
    marks: list[tuple[float, float]] = []

    def on_event(event: TrainEvent) -> None:
        if event.stage == "step":
            marks.append((time.monotonic(), time.process_time() + children_seconds()))

    with Store.open(config.store) as store:
        report = await train_online(config, parts, store, on_event)
    lines = [json.loads(line) for line in report.metrics_path.read_text().splitlines()][given.warm :]
    trajectories = sum(line["trajectories"] for line in lines)
    seconds, processor = (marks[-1][i] - marks[given.warm - 1][i] for i in (0, 1))
    return {
        "per_hour": 3600 * trajectories / seconds,
        "trajectories": trajectories,
        "seconds": seconds,
        "processor_fraction": processor / seconds / (os.cpu_count() or 1),
        "rollouts_idle": float(np.mean([line["rollout_idle_fraction"] for line in lines])),
        "learner_idle": float(np.mean([line["learner_idle_fraction"] for line in lines])),
        "staleness_max": max(line["staleness_max"] for line in lines),
        "bound": config.max_staleness,
        "dropped": sum(report.trajectories_dropped.values()),
    }


def small_model(path: Path, tokenizer: AutoTokenizer) -> Path:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),  # type: ignore[arg-type]
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=8192,
    )
    LlamaForCausalLM(config).save_pretrained(path)
    tokenizer.save_pretrained(path)  # type: ignore[attr-defined]
    return path


def remember_verdicts() -> None:
    grade, known = harness.workplace.grade, {}

    async def remembered(task: Task, patch: object, *arguments: object, **options: object) -> Grade:
        if task.digest not in known:
            known[task.digest] = asyncio.create_task(grade(task, patch, *arguments, **options))  # type: ignore[arg-type]
        return await asyncio.shield(known[task.digest])

    harness.workplace.grade = remembered


def children_seconds() -> float:
    """Processor time of the sandboxes' processes that were children of this one and have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


if __name__ == "__main__":
    asyncio.run(main())
