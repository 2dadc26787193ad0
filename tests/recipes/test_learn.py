"""The plan of `make learn`: complete, in order, resumable, and its summary from what a store holds."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentgym.config import parse_config, read_toml
from agentgym.errors import InputError
from agentgym.store import Store
from agentgym.store.records import PolicyKind, Termination, Trajectory
from agentgym.tasks.mutation.bases import snippet_bases
from agentgym.tasks.mutation.mutants import Choice
from agentgym.tasks.mutation.sets import share_of
from harness.profile import load_profile
from recipes.learn import stages
from recipes.learn.families import snippet_sources
from recipes.learn.settings import LearnSettings
from recipes.learn.summary import memory_table, summarise
from trainer.online.config import OnlineConfig

RECIPES = Path(stages.__file__).parent


def plan(tmp_path: Path, name: str = "learn", arm: str = "sao", *, dry_run: bool = True) -> stages.Plan:
    given = read_toml(RECIPES / f"{name}.toml") | {"output": str(tmp_path / "run")}
    return stages.Plan(parse_config(LearnSettings, given, origin=name), arm, dry_run=dry_run)


@pytest.mark.parametrize("arm", ["sao", "grpo", "sao-unmasked"])
@pytest.mark.parametrize("name", ["learn", "tiny"])
def test_every_stage_is_a_command_with_a_config_it_accepts(tmp_path: Path, capsys, name: str, arm: str) -> None:
    dry = plan(tmp_path, name, arm)
    dry.run()
    told = [line.split()[1].rstrip(":") for line in capsys.readouterr().err.splitlines() if line.startswith("──")]
    assert told[:4] == ["tasks", "gold", "sft-1", "probe-1"]
    assert told[-6:] == ["tries", "sft-instances", "sft-modules", arm, f"{arm}-instances", f"{arm}-modules"]
    for stage in (arm, "sft-1"):
        values = tomllib.loads((dry.out / "config" / f"{stage}.toml").read_text())
        config = OnlineConfig.model_validate(values)
        assert config.seed == 0
    assert load_profile(stages.PROFILE).stop.tests_passed


def test_the_arms_differ_in_their_algorithm_and_in_nothing_else(tmp_path: Path) -> None:
    found = {}
    for arm in ("sao", "grpo", "sao-unmasked"):
        dry = plan(tmp_path / arm, arm=arm)
        dry.run()
        found[arm] = tomllib.loads((dry.out / "config" / f"{arm}.toml").read_text())
    own = {
        "credit",
        "credit_options",
        "objective",
        "objective_options",
        "group_size",
        "output",
        "run_id",
        "model",
        "store",
    }
    shared = [{key: value for key, value in one.items() if key not in own} for one in found.values()]
    assert shared[0] == shared[1] == shared[2]
    episodes = {arm: one["steps"] * one["batch_trajectories"] for arm, one in found.items()}
    assert len(set(episodes.values())) == 1


def test_a_stage_that_is_done_is_not_run_again(tmp_path: Path) -> None:
    real = plan(tmp_path, dry_run=False)
    (real.out / "stages").mkdir(parents=True)
    (real.out / "stages" / "tasks.json").write_text('{"tasks": [], "stage_seconds": 1.0}')
    assert real.stage("tasks", ["no", "such", "command"], {}) == {"tasks": [], "stage_seconds": 1.0}
    with pytest.raises(stages.StageFailed, match="exit code 2"):
        real.stage("other", ["no-such-command"], {})
    assert real.result("other") is None


def test_the_time_of_an_interrupted_stage_counts(tmp_path: Path, monkeypatch) -> None:
    real = plan(tmp_path, dry_run=False)
    (real.out / "stages").mkdir(parents=True)
    with pytest.raises(stages.StageFailed):
        real.stage("other", ["no-such-command"], {})
    first = float((real.out / "stages" / "other.spent").read_text())
    monkeypatch.setattr(stages.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0, stdout="{}"))
    found = real.stage("other", ["no-such-command"], {})
    assert found == {}
    assert json.loads((real.out / "stages" / "other.json").read_text())["stage_seconds"] > first > 0


def episode(run: str, task: int, reward: float) -> Trajectory:
    return Trajectory(
        task_id=f"base-bug{task % 4}-{task}",
        task_digest="sha256:1",
        harness_digest="sha256:2",
        backend="local",
        image_digest="sha256:3",
        policy="policy",
        policy_kind=PolicyKind.MODEL,
        calls=(),
        steps=(),
        termination=Termination.SUBMITTED,
        reward=reward,
        run_id=run,
    )


def test_the_summary_says_what_the_store_holds(tmp_path: Path) -> None:
    done = plan(tmp_path, dry_run=False)
    (done.out / "sao").mkdir(parents=True)
    (done.out / "stages").mkdir()
    (done.out / "stages" / "sao.json").write_text('{"stage_seconds": 120.0}')
    (done.out / "stages" / "grpo-modules.json").write_text('{"stage_seconds": 600.0}')
    line = {"step": 1, "kept_fraction": 0.9, "staleness_max": 2.0, "dropped": {"stale": 1}, "train_success": 0.5}
    (done.out / "sao" / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    with Store.open(done.settings.store) as store:
        for task in range(20):
            for which in stages.HELD_OUT:
                store.add(episode(f"sft-{which}", task, float(task < 5)))
                store.add(episode(f"sao-{which}", task, float(task < 15)))
        store.add(episode("sao", 0, 1.0))
    summary = json.loads(summarise(done).read_text())
    assert summary["instances"]["sft_pass1"] == 0.25
    assert summary["modules"]["rl_pass1"] == 0.75
    assert summary["instances"]["ci_low"] > 0.2
    assert summary["instances"]["by_family"] == {
        "base-bug0": [0.4, 0.8], "base-bug1": [0.2, 0.8], "base-bug2": [0.2, 0.8], "base-bug3": [0.2, 0.6],
    }  # fmt: skip
    assert summary["modules"]["family_ci_low"] >= 0.4, "every family gained 0.4 or more"
    assert (summary["episodes"], summary["updates"], summary["max_staleness"]) == (1, 1, 2.0)
    assert summary["minutes"] == 2.0, "another arm's time is not this one's"
    assert (done.out / "plots-sao" / "held-out.png").exists()


def test_a_set_that_two_policies_answered_is_not_summed_up(tmp_path: Path) -> None:
    done = plan(tmp_path, dry_run=False)
    (done.out / "sao").mkdir(parents=True)
    (done.out / "sao" / "metrics.jsonl").touch()
    with Store.open(done.settings.store) as store:
        for task, model in enumerate(("sft-1-untied", "sft-2-untied")):
            store.add(replace(episode("sft-modules", task, 0.0), model=model))
    with pytest.raises(InputError, match="answers of 2 policies: sft-1-untied, sft-2-untied"):
        summarise(done)


def test_reinforcement_starts_where_imitation_ended(tmp_path: Path) -> None:
    """Given two rounds of imitation, and an `enough` that now would have stopped after the first."""
    dry = plan(tmp_path)
    for folder in ("stages", "config"):
        (dry.out / folder).mkdir(parents=True)
    for number in (1, 2):
        (dry.out / f"stages/sft-{number}.json").write_text(json.dumps({"checkpoint": f"sft/step-{number}"}))
        (dry.out / f"stages/probe-{number}.json").write_text(json.dumps({"pass@1": {"value": 0.5}}))
    assert dry.cold_start().name == "sft-2-untied"
    assert dry.sft_policy() == Path("sft/step-2/policy")


def test_the_families_trained_on_are_those_that_the_start_solves_sometimes(tmp_path: Path) -> None:
    real = plan(tmp_path, dry_run=False)
    real.settings = real.settings.model_copy(update={"families": 2, "tries": 2})
    (real.out / "stages").mkdir(parents=True)
    (real.out / "stages" / "tries.json").write_text("{}")
    rates = {
        "always-1": (1.0, 1.0, 1.0),
        "never-2": (0.0, 0.0, 0.0),
        "often-3": (1.0, 1.0, 0.0),
        "seldom-4": (0.0, 1.0, 0.0),
    }
    with Store.open(real.settings.store) as store:
        for family, rewards in rates.items():
            for number, reward in enumerate(rewards):
                task = real.out / "tasks" / "train" / f"{family}-{number}"
                task.mkdir(parents=True)
                (task / "task.toml").touch()
                store.add(replace(episode("tries", 0, reward), task_id=task.name))
    assert real.choose(tmp_path) == ["often-3", "seldom-4"], "before one that is never or always solved"
    kept = stages.of_families(real.tasks("train"), ["seldom-4"])
    assert [Path(task).name for task in kept] == ["seldom-4-0", "seldom-4-1", "seldom-4-2"]


def test_memory_is_told_beforehand() -> None:
    settings = parse_config(LearnSettings, read_toml(RECIPES / "learn.toml"), origin="learn")
    assert "134 M parameters" in memory_table(settings)


def test_reinforcement_gets_few_modules_and_many_bugs_of_each() -> None:
    choice = Choice(frozenset(["arithmetic"]), max_lines=10)
    sources = snippet_sources(3, choice)
    shares: dict[str, list[str]] = {"train": [], "cold-start": [], "modules": []}
    for base in snippet_bases(*(source.removeprefix("snippets:") for source in sources)):
        shares[share_of(base, base.modules[0])].append(base.name)
    assert len(shares["train"]) == 3
    assert len(shares["cold-start"]) > 20
    assert len(shares["modules"]) > 20
    assert sources == sorted(sources)
    assert len(snippet_sources(5, choice)) == len(sources) + 2
