"""The same step on real weights: SmolLM2-135M, where it is in the cache (agentgym models pull)."""

from __future__ import annotations

import pytest
import torch

from agentgym.models import DEFAULT_MODEL, models_dir
from agentgym.store import Store
from trainer.config import TrainConfig
from trainer.loop import train
from trainer.models import load_policy


def test_one_sao_step_on_real_weights(tmp_path, sample) -> None:
    """Given trajectories the model itself sampled, then ratios are 1 to fp32 accuracy and the step is taken."""
    path = models_dir() / DEFAULT_MODEL
    if not (path / "config.json").exists():
        pytest.skip(f"{DEFAULT_MODEL} is not in the cache (agentgym models pull)")
    url = f"sqlite:///{tmp_path / 'store.db'}"
    model = load_policy(path)
    with Store.open(url) as store:
        for seed in range(2):
            store.add(sample(model, seed=seed, turns=2, reward=float(seed), temperature=0.9))
    del model
    report = train(TrainConfig(model=path, store=url, output=tmp_path / "out", critic_layers=2, value_warmup_steps=1))
    assert report.kept_fraction == 1.0
    assert report.kl == pytest.approx(0.0, abs=1e-5)
    assert report.checkpoint is not None
    after, before = load_policy(report.checkpoint / "policy"), load_policy(path)
    moved = [not torch.equal(p, q) for p, q in zip(after.parameters(), before.parameters(), strict=True)]
    assert all(moved)
    assert (report.checkpoint / "policy" / "tokenizer.json").exists()
