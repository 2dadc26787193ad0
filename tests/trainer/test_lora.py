"""LoRA: training starts at the policy, moves adapters only, and what is saved and served is the sum."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from agentgym.store import Store
from trainer.config import TrainConfig
from trainer.errors import CheckpointError
from trainer.loop import train
from trainer.run import TrainingRun


@pytest.fixture
def configured(policy_dir: Path, tmp_path: Path, policy, sample):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with Store.open(url) as store:
        for seed in range(6):
            store.add(sample(policy, seed=seed, reward=float(seed % 2)))

    def make(output: str = "out", **values) -> TrainConfig:
        settings = {
            "model": policy_dir, "store": url, "output": tmp_path / output, "batch_trajectories": 2,
            "value_warmup_steps": 1, "policy_trains": "lora", "critic_trains": "lora", "lora_rank": 4,
            "policy_learning_rate": 1e-2, "value_learning_rate": 1e-2,
        }  # fmt: skip
        return TrainConfig.model_validate(settings | values)

    return make


def run_of(config: TrainConfig) -> TrainingRun:
    return TrainingRun(config, lambda event: None)


def test_a_run_begins_at_the_policy_and_trains_adapters_only(configured, policy) -> None:
    learner = run_of(configured()).learner
    trained = [name for name, p in learner.policy.named_parameters() if p.requires_grad]
    assert len(trained) == 2 * 7 * 2, "A and B of seven projections in two layers"
    assert all("lora_" in name for name in trained)
    assert learner.value is not None
    critic = [name for name, p in learner.value.critic.named_parameters() if p.requires_grad]
    assert len(critic) == 2 + 2 * 3 * 2, "the head, and the three projections of two MLPs"
    assert not any("attn" in name for name in critic)
    for name, tensor in learner.weights().items():
        torch.testing.assert_close(tensor, policy.state_dict()[name])


def test_what_is_saved_is_the_sum_and_peft_reads_the_adapters(configured, policy_dir) -> None:
    """Given a step, then policy/ is a plain model, and the start with adapter/ on it is the same one."""
    report = train(configured())
    served = AutoModelForCausalLM.from_pretrained(report.checkpoint / "policy")
    started = AutoModelForCausalLM.from_pretrained(policy_dir)
    assert served.state_dict().keys() == started.state_dict().keys()
    added = PeftModel.from_pretrained(started, report.checkpoint / "adapter")
    tokens = torch.arange(1, 20)[None]
    with torch.no_grad():
        found, expected = served(tokens).logits, added(tokens).logits
        with added.disable_adapter():
            before = added(tokens).logits
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert (found - before).abs().max() > 1e-3


def test_a_resumed_run_is_the_run_that_was_not_stopped(configured) -> None:
    whole = train(configured("whole", steps=2))
    for _ in range(2):
        parts = train(configured("parts"))
    assert parts.step == whole.step == 2
    for file in ("adapter/adapter_model.safetensors", "policy/model.safetensors", "critic.safetensors"):
        one, other = load_file(parts.checkpoint / file), load_file(whole.checkpoint / file)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one), file


@pytest.mark.parametrize("changed", [{"lora_rank": 8}, {"policy_trains": "full"}, {"critic_trains": "head"}])
def test_resuming_what_would_not_fit_is_refused(configured, changed: dict) -> None:
    report = train(configured())
    assert json.loads((report.checkpoint / "state.json").read_text())["lora_rank"] == 4
    with pytest.raises(CheckpointError, match=next(iter(changed))):
        train(configured(**changed))
