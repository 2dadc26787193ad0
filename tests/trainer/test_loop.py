"""A run over a real store: report, metrics, checkpoint, exact resume, each trajectory once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from agentgym.store import Store
from agentgym.store.records import PolicyKind
from trainer import checkpoint
from trainer.config import TrainConfig
from trainer.errors import CheckpointError, EvidenceError, TrainConfigError
from trainer.loop import TrainEvent, train


@pytest.fixture
def store_url(tmp_path: Path, policy, sample) -> str:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with Store.open(url) as store:
        for seed in range(6):
            store.add(sample(policy, seed=seed, reward=float(seed % 2), turns=2, group=f"g{seed // 2}"))
        store.add(sample(policy, seed=7, policy_kind=PolicyKind.SCRIPTED))
        store.add(sample(policy, seed=8, reward=None))
    return url


def config(policy_dir: Path, store_url: str, output: Path, **values) -> TrainConfig:
    defaults = {"batch_trajectories": 3, "value_warmup_steps": 2, "policy_learning_rate": 1e-3}
    return TrainConfig(model=policy_dir, store=store_url, output=output, **(defaults | values))


def test_one_step_reports_what_was_used_and_what_was_not(policy_dir, store_url, tmp_path) -> None:
    events: list[TrainEvent] = []
    report = train(config(policy_dir, store_url, tmp_path / "out"), events.append)
    assert (report.steps, report.version, report.trajectories_used) == (1, 1, 3)
    assert report.trajectories_dropped == {"not_a_model": 1, "no_reward": 1}
    assert report.kept_fraction == 1.0
    assert report.tokens > 0
    assert report.policy_loss is not None
    assert report.value_loss is not None
    (line,) = [json.loads(line) for line in report.metrics_path.read_text().splitlines()]
    assert line["step"] == 1
    assert line["value_updates"] == 2
    assert [e.stage for e in events if e.stage in ("load", "step")] == ["load", "step"]
    assert {"warmup", "critic", "policy", "checkpoint"} <= {e.stage for e in events}


def test_the_saved_policy_is_a_servable_directory(policy_dir, store_url, tmp_path) -> None:
    report = train(config(policy_dir, store_url, tmp_path / "out"))
    assert report.checkpoint is not None
    served = AutoModelForCausalLM.from_pretrained(report.checkpoint / "policy")
    before = AutoModelForCausalLM.from_pretrained(policy_dir)
    assert any(not torch.equal(p, q) for p, q in zip(served.parameters(), before.parameters(), strict=True))
    assert (report.checkpoint / "policy" / "tokenizer_config.json").exists()
    settings = [json.loads((path / "config.json").read_text()) for path in (report.checkpoint / "policy", policy_dir)]
    assert settings[0] == settings[1], "training leaves no trace in the model's config"


@pytest.mark.parametrize("credit", ["sao-gae", "grpo"])
def test_two_steps_are_one_step_saved_loaded_and_another(policy_dir, store_url, tmp_path, credit: str) -> None:
    """Given the same start, when one run is interrupted between its steps, then both end bit for bit the same."""
    whole = train(config(policy_dir, store_url, tmp_path / "whole", steps=2, credit=credit, batch_trajectories=2))
    for _ in range(2):
        parts = train(config(policy_dir, store_url, tmp_path / "parts", credit=credit, batch_trajectories=2))
    assert parts.step == whole.step == 2
    assert parts.trajectories_used == whole.trajectories_used
    for file in ("policy/model.safetensors", *(["critic.safetensors"] if credit == "sao-gae" else [])):
        assert (parts.checkpoint / file).read_bytes() == (whole.checkpoint / file).read_bytes(), file
    saved = [torch.load(path / "training.pt", weights_only=True) for path in (parts.checkpoint, whole.checkpoint)]
    assert str(saved[0]) == str(saved[1])

    def lines(report):
        found = [json.loads(line) for line in report.metrics_path.read_text().splitlines()]
        return [{name: value for name, value in line.items() if name not in ("seconds", "dropped")} for line in found]

    assert lines(parts) == lines(whole)


def test_no_trajectory_is_used_twice_and_the_end_of_the_evidence_is_an_end(policy_dir, store_url, tmp_path) -> None:
    first = train(config(policy_dir, store_url, tmp_path / "out", steps=9))
    assert (first.steps, first.trajectories_used) == (2, 6)
    with pytest.raises(EvidenceError, match="6 already_used"):
        train(config(policy_dir, store_url, tmp_path / "out"))


def test_a_torn_checkpoint_costs_one_step_not_the_run(policy_dir, store_url, tmp_path) -> None:
    output = tmp_path / "out"
    train(config(policy_dir, store_url, output, steps=2))
    torn = output / "step-000002" / "policy" / "model.safetensors"
    torn.write_bytes(torn.read_bytes()[:-1])
    assert checkpoint.newest(output) == output / "step-000001"
    report = train(config(policy_dir, store_url, output))
    assert report.step == 2
    assert checkpoint.newest(output) == output / "step-000002"
    assert [json.loads(line)["step"] for line in report.metrics_path.read_text().splitlines()] == [1, 2]


def test_a_torn_checkpoint_of_a_later_step_costs_no_new_one(policy_dir, store_url, tmp_path) -> None:
    """Given only torn debris, then the run begins anew, and what it saves is not what is cleared away."""
    output = tmp_path / "out"
    torn = output / "step-000010"
    torn.mkdir(parents=True)
    (torn / "manifest.json").write_text('{"state.json": ')
    report = train(config(policy_dir, store_url, output, keep_checkpoints=1))
    assert checkpoint.newest(output) == report.checkpoint == output / "step-000001"


def test_a_line_of_metrics_that_was_cut_off_is_dropped(policy_dir, store_url, tmp_path) -> None:
    output = tmp_path / "out"
    report = train(config(policy_dir, store_url, output))
    with report.metrics_path.open("a") as file:
        file.write('{"step": 2, "policy_lo')
    report = train(config(policy_dir, store_url, output))
    assert [json.loads(line)["step"] for line in report.metrics_path.read_text().splitlines()] == [1, 2]


def test_old_checkpoints_are_removed(policy_dir, store_url, tmp_path) -> None:
    train(config(policy_dir, store_url, tmp_path / "out", steps=3, batch_trajectories=2, keep_checkpoints=2))
    assert sorted(path.name for path in (tmp_path / "out").glob("step-*")) == ["step-000002", "step-000003"]


def test_a_resumed_run_outlives_the_checkpoint_it_went_on_from(policy_dir, store_url, tmp_path) -> None:
    output, one = tmp_path / "out", {"batch_trajectories": 2, "keep_checkpoints": 1}
    (policy_dir / "chat_template.jinja").write_text("{{ messages }}")
    train(config(policy_dir, store_url, output, steps=1, **one))
    report = train(config(policy_dir, store_url, output, steps=2, **one))
    assert report.checkpoint == output / "step-000003"
    assert (report.checkpoint / "policy/chat_template.jinja").exists()


def test_fewer_checkpoints_cost_a_crash_more_updates_and_change_nothing_else(policy_dir, store_url, tmp_path) -> None:
    """Given a checkpoint every second update, then the last is saved too, and what was not saved is taken again."""
    output = tmp_path / "out"
    seldom = {"batch_trajectories": 2, "checkpoint_every": 2, "keep_checkpoints": 9}
    train(config(policy_dir, store_url, output, steps=3, **seldom))
    assert [path.name for path in sorted(output.glob("step-*"))] == ["step-000002", "step-000003"]
    every = train(config(policy_dir, store_url, tmp_path / "every", steps=3, batch_trajectories=2))
    saved = every.checkpoint / "policy" / "model.safetensors"
    assert (output / "step-000003/policy/model.safetensors").read_bytes() == saved.read_bytes()
    shutil.rmtree(output / "step-000003")  # as if it had been killed before
    again = train(config(policy_dir, store_url, output, steps=1, **seldom))
    assert (again.step, len((output / "metrics.jsonl").read_text().splitlines())) == (3, 3)
    assert (again.checkpoint / "policy/model.safetensors").read_bytes() == saved.read_bytes()


def test_an_interrupted_pass_goes_on_with_what_it_has_not_read(policy_dir, store_url, tmp_path) -> None:
    """Given seven demonstrations read three at a time by one call each, then nobody is read twice before all were once."""
    settings = {"objective": "sft", "credit": "constant", "imitate": True, "passes": 9, "batch_trajectories": 3}
    for _ in range(2):
        report = train(config(policy_dir, store_url, tmp_path / "out", steps=1, **settings))
    used = json.loads((report.checkpoint / "state.json").read_text())["used"]
    assert len(set(used)) == len(used) == 6


def test_a_full_disk_leaves_no_half_checkpoint(policy_dir, store_url, tmp_path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(CheckpointError, match="No space left"):
        train(config(policy_dir, store_url, tmp_path / "out"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == []


def test_resuming_under_another_credit_is_refused(policy_dir, store_url, tmp_path) -> None:
    train(config(policy_dir, store_url, tmp_path / "out"))
    with pytest.raises(CheckpointError, match="credit = 'sao-gae'"):
        train(config(policy_dir, store_url, tmp_path / "out", credit="grpo"))


def test_a_fresh_run_never_overwrites_another(policy_dir, store_url, tmp_path) -> None:
    train(config(policy_dir, store_url, tmp_path / "out"))
    with pytest.raises(TrainConfigError, match="step-000001"):
        train(config(policy_dir, store_url, tmp_path / "out", resume=False))


def test_group_rules_leave_out_lone_rollouts(policy_dir, store_url, tmp_path, policy, sample) -> None:
    with Store.open(store_url) as store:
        store.add(sample(policy, seed=20, group="alone"))
    report = train(config(policy_dir, store_url, tmp_path / "out", credit="grpo", batch_trajectories=128))
    assert report.trajectories_used == 6
    assert report.trajectories_dropped["group_of_one"] == 1


def test_an_unknown_option_names_the_nearest(policy_dir, store_url, tmp_path) -> None:
    with pytest.raises(TrainConfigError, match="did you mean 'epsilon_low'"):
        config(policy_dir, store_url, tmp_path, objective_options={"epsilon_lo": 0.1})
    with pytest.raises(TrainConfigError, match="did you mean 'sao'"):
        config(policy_dir, store_url, tmp_path, objective="soa")


def test_imitation_reads_scripted_successes_and_raises_their_likelihood(policy_dir, tmp_path, policy, sample) -> None:
    """Given gold and failed scripted episodes of no known distribution, when SFT runs, then the loss falls on the gold."""
    from dataclasses import replace

    from agentgym.store.records import Sampling

    url = f"sqlite:///{tmp_path / 'gold.db'}"
    with Store.open(url) as store:
        for seed in range(4):
            gold = sample(policy, seed=seed, policy_kind=PolicyKind.SCRIPTED, reward=float(seed != 3))
            calls = tuple(replace(call, sampling=Sampling(temperature=0.0)) for call in gold.calls)
            store.add(replace(gold, calls=calls))
    settings = {"objective": "sft", "credit": "constant", "imitate": True, "min_reward": 1.0, "policy_updates": 5}
    report = train(config(policy_dir, url, tmp_path / "out", **settings))
    assert report.trajectories_used == 3
    assert report.trajectories_dropped == {"low_reward": 1}
    before = -policy_loglikelihood(policy, url)
    assert report.policy_loss is not None
    assert report.policy_loss < before


def policy_loglikelihood(policy, url: str) -> float:
    from trainer.batch import Batch
    from trainer.evidence import Evidence, judge
    from trainer.models import action_logprobs

    with Store.open(url) as store:
        rules = TrainConfig(model=Path(), store=url, output=Path(), imitate=True, objective="sft", min_reward=1.0)
        found = [judge(trajectory, rules, version=0) for trajectory in store.iter()]
    batch = Batch.of([item for item in found if isinstance(item, Evidence)], micro_batch_tokens=10_000)
    (micro,) = batch.micro_batches
    return float(action_logprobs(policy, micro, batch.temperature[micro.cells])[0].mean())


def test_a_demonstration_cannot_be_reweighted(policy_dir, store_url, tmp_path) -> None:
    with pytest.raises(TrainConfigError, match="no behaviour policy"):
        config(policy_dir, store_url, tmp_path, imitate=True)


def test_dynamic_sampling_leaves_out_groups_without_contrast(policy_dir, store_url, tmp_path, policy, sample) -> None:
    with Store.open(store_url) as store:
        for seed in (30, 31):
            store.add(sample(policy, seed=seed, group="easy", reward=1.0))
    settings = {"credit": "dapo", "objective": "gspo", "batch_trajectories": 128}
    report = train(config(policy_dir, store_url, tmp_path / "out", **settings))
    assert report.trajectories_used == 6
    assert report.trajectories_dropped["uniform_group"] == 2


def test_reward_vectors_reach_the_rule_that_needs_them(policy_dir, tmp_path, policy, sample) -> None:
    url = f"sqlite:///{tmp_path / 'vectors.db'}"
    with Store.open(url) as store:
        for seed, vector in enumerate([(1, 0), (0, 1), (0.6, 0.6), (0.6, 0.6)]):
            store.add(sample(policy, seed=seed, group="g", reward_vector={"a": vector[0], "b": vector[1]}))
    report = train(config(policy_dir, url, tmp_path / "out", credit="vpo", objective="grpo", batch_trajectories=4))
    assert report.trajectories_used == 4


def test_demonstrations_may_be_read_again_in_another_order(policy_dir, store_url, tmp_path) -> None:
    settings = {"objective": "sft", "credit": "constant", "imitate": True, "passes": 2, "batch_trajectories": 3}
    report = train(config(policy_dir, store_url, tmp_path / "out", steps=9, **settings))
    state = json.loads((report.checkpoint / "state.json").read_text())
    first, second = state["used"][:7], state["used"][7:]
    assert sorted(first) == sorted(second), "each once in each pass, the scripted one too"
    assert first != second
    with pytest.raises(TrainConfigError, match="only demonstrations"):
        config(policy_dir, store_url, tmp_path, passes=2)
