"""One policy update: ours against TRL's GRPO step, and merged multi-turn sequences against one sample per call.

Both take the same model, the same sequences (heavy-tailed lengths up to 4k tokens, prompts of a few hundred) and GRPO's loss,
float32, recomputed activations, AdamW. Theirs is `GRPOTrainer._compute_loss` itself with its fused head, on the padded batch
its trainer makes (`per_device_train_batch_size` = the batch); ours is `Learner`. Each runs in a process of its own, so that
`memory` is its own peak (resident, above what was loaded before the step). ratio: our tokens per second over theirs;
memory_ratio: our peak over theirs. Tokens are counted without padding.

The second part needs no anchor: an episode of 16 turns as one merged sequence, and as 16 samples, each with its whole prompt.
merged_ratio: seconds of the latter over the former; gradient_gap: largest difference of their gradients, over the largest
gradient.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import torch
from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, LlamaForCausalLM

from trainer.batch import Batch, MicroBatch
from trainer.chain import Chain
from trainer.config import LearnerConfig
from trainer.evidence import Evidence, Row
from trainer.learner import Learner
from trainer.models import action_loss, prepare
from trainer.objectives import OBJECTIVES, ActionTokens

LENGTHS = (4096, 1792, 1024, 768, 512, 448, 384, 320)
PROMPT, TURNS, TURN_TOKENS, OBSERVATION = 192, 16, 24, 40
LAYERS, HIDDEN, VOCABULARY = 8, 576, 49152
BEHAVIOUR = -10.8
"""Recorded logprob of every token: about what an untrained model of this vocabulary gives."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=["ours", "trl", "merged"], help="one measurement, in this process")
    parser.add_argument("--scale", type=float, default=1.0, help="of the sequence lengths; 1 is what is claimed")
    given = parser.parse_args()
    if given.part:
        print(json.dumps({"ours": ours, "trl": trl, "merged": merged}[given.part](given.scale)))
        return
    if importlib.util.find_spec("trl") is None:
        sys.exit("the anchor is missing: pip install --no-deps trl==1.16.0 && pip install datasets")
    found = {part: _measure(part, given.scale) for part in ("ours", "trl", "merged")}
    a, b, one = found["ours"], found["trl"], found["merged"]
    result = {
        "bench": "learner",
        "ours": a["tokens_per_second"],
        "anchor": b["tokens_per_second"],
        "anchor_name": "TRL 1.16 GRPOTrainer",
        "unit": "tokens/s",
        "ratio": a["tokens_per_second"] / b["tokens_per_second"],
        "processor_ratio": b["processor_seconds"] / a["processor_seconds"],
        "memory_ratio": a["memory"] / b["memory"],
        "loss_gap": abs(a["loss"] - b["loss"]),
        **{f"merged_{name}" if name == "ratio" else name: value for name, value in one.items()},
    }
    table = Table("", "ours", "TRL", title=f"one update, {sum(_lengths(given.scale))} tokens", title_justify="left")
    table.add_row("tokens/s", f"{a['tokens_per_second']:.0f}", f"{b['tokens_per_second']:.0f}")
    table.add_row("peak memory of the step", f"{a['memory'] / 2**20:.0f} MiB", f"{b['memory'] / 2**20:.0f} MiB")
    table.add_row("16 turns: merged / apart", f"{one['merged_seconds']:.1f} s", f"{one['apart_seconds']:.1f} s")
    Console(stderr=True).print(table)
    print(json.dumps(result))


def ours(scale: float) -> dict[str, float]:
    model, rows, advantages = _model(), _rows(scale), _advantages(scale)
    config = LearnerConfig(
        credit="constant", objective="grpo", policy_learning_rate=1e-6, activation_checkpoint_tokens=1
    )
    learner = Learner(model, config)
    evidence = [
        Evidence(str(index), str(index), (row,), float(advantages[index]), False) for index, row in enumerate(rows)
    ]
    learner.credit = SimpleNamespace(  # the advantages are given, so that both take the same
        needs=frozenset(), advantages=lambda given: given.chain.spread(advantages)
    )  # type: ignore[assignment]
    batch = Batch.of(evidence, micro_batch_tokens=1024)
    watch = _Peak()
    clock = _Clock()
    metrics = learner.step(batch)
    return _told(clock, watch, metrics["policy_loss"], scale)


def trl(scale: float) -> dict[str, float]:
    from accelerate import Accelerator
    from trl import GRPOTrainer
    from trl.trainer.grpo_trainer import add_fused_lm_head

    model, rows, advantages = _model(), _rows(scale), _advantages(scale)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    add_fused_lm_head(model, temperature=1.0, outputs=("log_probs", "entropy"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    longest = max(len(row) for row in rows) - PROMPT
    completions, mask = (
        torch.zeros(len(rows), longest, dtype=torch.int64),
        torch.zeros(len(rows), longest, dtype=torch.int64),
    )
    for index, row in enumerate(rows):
        completions[index, : len(row) - PROMPT] = row.token_ids[PROMPT:]
        mask[index, : len(row) - PROMPT] = 1
    prompts = torch.stack([row.token_ids[:PROMPT] for row in rows])
    trainer: Any = SimpleNamespace(
        model=model, accelerator=Accelerator(cpu=True), aux_loss_enabled=False, top_entropy_quantile=1.0, beta=0.0,
        off_policy_mask_threshold=None, importance_sampling_level="token", loss_type="grpo", epsilon_low=0.2,
        epsilon_high=0.2, use_vllm=False, _entropy_bonus_enabled=False, current_gradient_accumulation_steps=1,
        args=SimpleNamespace(delta=None, steps_per_generation=1), _metrics={"train": _Sink(), "eval": _Sink()},
        vllm_importance_sampling_correction=False, max_completion_length=longest,
    )  # fmt: skip
    trainer._get_per_token_logps_and_entropies = GRPOTrainer._get_per_token_logps_and_entropies.__get__(trainer)
    inputs = {
        "prompt_ids": prompts,
        "prompt_mask": torch.ones_like(prompts),
        "completion_ids": completions,
        "completion_mask": mask,
        "old_per_token_logps": torch.full(completions.shape, BEHAVIOUR),
        "advantages": advantages,
    }
    watch = _Peak()
    clock = _Clock()
    loss = GRPOTrainer._compute_loss(trainer, model, inputs)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return _told(clock, watch, float(loss), scale)


def merged(scale: float) -> dict[str, float]:
    """The same episode as one sequence and as a sample per call."""
    generator = torch.Generator().manual_seed(1)
    turns, seen, calls = max(2, int(TURNS)), PROMPT, []
    for _ in range(turns):
        calls.append((seen, seen + TURN_TOKENS))
        seen += TURN_TOKENS + OBSERVATION
    tokens = torch.randint(1, VOCABULARY, (calls[-1][1],), generator=generator)
    whole = torch.cat([torch.arange(*call) for call in calls])
    behaviour = -11 + torch.zeros(len(whole))
    one = [_row(tokens, whole, behaviour)]
    apart = [_row(tokens[:end], torch.arange(start, end), behaviour[: end - start]) for start, end in calls]
    model = _model()
    seconds, gradients = [], []
    for rows in (one, apart):
        started = time.perf_counter()
        gradients.append(_gradient(model, tuple(rows)))
        seconds.append(time.perf_counter() - started)
    gap = float((gradients[0] - gradients[1]).abs().max() / gradients[0].abs().max())
    return {
        "ratio": seconds[1] / seconds[0],
        "gradient_gap": gap,
        "turns": turns,
        "merged_seconds": seconds[0],
        "apart_seconds": seconds[1],
    }


def _gradient(model: LlamaForCausalLM, rows: tuple[Row, ...]) -> torch.Tensor:
    batch = Batch.of([Evidence("e", "g", rows, 1.0, False)], micro_batch_tokens=1024)
    objective = OBJECTIVES.build("reinforce")
    weights = objective.weights(Chain(batch.chain.lengths), batch.truncated)
    model.zero_grad()
    for micro in batch.micro_batches:

        def loss_of(
            logprob: torch.Tensor, entropy: torch.Tensor, part: slice, micro: MicroBatch = micro
        ) -> torch.Tensor:
            at = micro.cells[part]
            given = ActionTokens(logprob, batch.behaviour[at], torch.ones(len(at)), micro.row[part], entropy)
            return (weights[at] * objective.token_loss(given).loss).sum()

        action_loss(model, micro, batch.temperature[micro.cells], loss_of)[0].backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])


class _Sink(dict[str, Any]):
    """Metrics that nobody reads."""

    def __missing__(self, name: str) -> list[Any]:
        return []


class _Peak:
    """The largest resident memory since it was made, sampled every 5 ms beside the step."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self.before = self.most = self._process.memory_info().rss
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self.most = max(self.most, self._process.memory_info().rss)

    def read(self) -> int:
        self._done.set()
        self._thread.join()
        return self.most - self.before


class _Clock:
    """Seconds on the wall and of processor time since it was made."""

    def __init__(self) -> None:
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._wall, time.process_time() - self._processor


def _told(clock: _Clock, watch: _Peak, loss: float, scale: float) -> dict[str, float]:
    seconds, processor = clock.read()
    return {
        "tokens_per_second": sum(_lengths(scale)) / seconds,
        "seconds": seconds,
        "processor_seconds": processor,
        "memory": watch.read(),
        "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "loss": loss,
    }


def _measure(part: str, scale: float) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__)), "--part", part, "--scale", str(scale)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _lengths(scale: float) -> list[int]:
    return [max(PROMPT + 32, int(length * scale)) for length in LENGTHS]


def _model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=1536,
        num_hidden_layers=LAYERS,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    prepare(model)
    return model


def _rows(scale: float) -> list[Row]:
    generator = torch.Generator().manual_seed(0)
    rows = []
    for length in _lengths(scale):
        tokens = torch.randint(1, VOCABULARY, (length,), generator=generator)
        positions = torch.arange(PROMPT, length)
        rows.append(_row(tokens, positions, torch.full((len(positions),), BEHAVIOUR)))
    return rows


def _row(tokens: torch.Tensor, positions: torch.Tensor, behaviour: torch.Tensor) -> Row:
    ones, zeros = torch.ones(len(positions)), torch.zeros(len(positions), dtype=torch.int64)
    return Row(tokens, positions, behaviour, ones, zeros, zeros)


def _advantages(scale: float) -> torch.Tensor:
    return torch.linspace(-1, 1, len(_lengths(scale)))


if __name__ == "__main__":
    main()
