"""One learner in two processes, as torchrun starts them: the same run as in one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from agentgym.store import Store
from trainer.config import TrainConfig
from trainer.loop import train

ROOT = Path(__file__).resolve().parents[2]


def in_two_processes(config: TrainConfig) -> dict:
    words = [
        f"--{name.replace('_', '-')}={json.dumps(value) if isinstance(value, dict) else value}"
        for name, value in config.model_dump(mode="json", exclude_unset=True).items()
    ]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "agentgym"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, *torchrun, "train", *words, "--json"],
        capture_output=True, text=True, env=environment, cwd=ROOT, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def test_two_processes_take_the_step_of_one_and_go_on_from_its_checkpoint(
    policy_dir: Path, tmp_path: Path, policy, sample
) -> None:
    """Given one process that took a step, when two go on from its checkpoint, then weights and metrics are those of one
    process that took both steps."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with Store.open(url) as store:
        for seed in range(6):  # three rows a batch: the shares are unequal
            store.add(sample(policy, seed=seed, reward=float(seed % 2), turns=1 + seed % 3))

    def config(output: str, **values) -> TrainConfig:
        settings = {
            "model": policy_dir, "store": url, "output": tmp_path / output, "batch_trajectories": 3,
            "value_warmup_steps": 1, "policy_learning_rate": 1e-3, "micro_batch_tokens": 1, "device": "cpu",
            "activation_checkpoint_tokens": 1, "critic_layers": 1, "critic_trains": "lora",
        }  # fmt: skip
        return TrainConfig.model_validate(settings | values)

    whole = train(config("whole", steps=2))
    train(config("parts"))
    parts = in_two_processes(config("parts"))
    assert parts["step"] == 2
    for file in ("policy/model.safetensors", "critic.safetensors"):
        one, other = load_file(Path(parts["checkpoint"]) / file), load_file(whole.checkpoint / file)
        assert one.keys() == other.keys()
        for name, tensor in one.items():
            torch.testing.assert_close(
                tensor, other[name], rtol=1e-3, atol=2e-5, msg=lambda text, name=name: f"{name}: {text}"
            )
    lines = [json.loads((tmp_path / run / "metrics.jsonl").read_text().splitlines()[-1]) for run in ("parts", "whole")]
    for name in ("policy_loss", "policy_gradient_norm", "value_loss", "kept_fraction", "entropy", "kl"):
        assert lines[0][name] == pytest.approx(lines[1][name], rel=1e-3, abs=1e-6), name
