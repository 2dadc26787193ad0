"""The GPU recipe without a GPU: every command and config is one the program accepts, and the memory adds up."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import typer.testing
from transformers import AutoModelForCausalLM, Qwen3Config

from agentgym.cli.evaluate import EvalConfig
from agentgym.cli.main import app
from agentgym.config import parse_config, read_toml
from agentgym.tasks.importers import BENCHMARKS
from harness.profile import load_profile
from recipes import swe
from recipes.swe.memory import needs, parameters
from recipes.swe.plan import Command, commands, write_configs
from recipes.swe.settings import SweSettings
from trainer.errors import TrainConfigError
from trainer.online.config import OnlineConfig

RECIPE = Path(swe.__file__).parent / "qwen3-8b.toml"


@pytest.fixture
def settings(tmp_path: Path) -> SweSettings:
    return parse_config(SweSettings, read_toml(RECIPE) | {"output": str(tmp_path / "swe")}, origin=str(RECIPE))


@pytest.fixture
def plan(settings: SweSettings) -> dict[str, Command]:
    return {command.name: command for command in commands(settings)}


def test_every_config_is_one_its_command_accepts(settings: SweSettings, plan: dict[str, Command]) -> None:
    written = {path.stem: tomllib.loads(path.read_text()) for path in write_configs(settings)}
    assert written.keys() == {"train", "before", "after"}
    train = OnlineConfig.model_validate(written["train"])
    assert (train.credit, train.objective, train.mode) == ("sao-gae", "sao", "async")
    for name in ("before", "after"):
        EvalConfig.model_validate(written[name])
    for name in written:
        assert plan[name].words[-1] == str(settings.output / "config" / f"{name}.toml")
    assert load_profile(settings.profile).sampling.top_p == 1


def test_every_command_of_ours_is_one_that_exists(plan: dict[str, Command]) -> None:
    """Given its options and --help, then the command line takes each of them (typer parses options before it helps)."""
    for name, command in plan.items():
        if "agentgym" in command.words:
            words = command.words[command.words.index("agentgym") + 1 :]
            found = typer.testing.CliRunner().invoke(app, [*words, "--no-such-option"])
            assert found.exit_code == 2, name
            assert "--no-such-option" in found.output, (name, found.output)


def test_benchmarks_are_known_and_the_processes_have_gpus_of_their_own(
    settings: SweSettings, plan: dict[str, Command]
) -> None:
    assert {settings.train.name, settings.held_out.name} <= BENCHMARKS.keys()
    learner, server = (plan[name].environment["CUDA_VISIBLE_DEVICES"].split(",") for name in ("train", "serve"))
    assert not set(learner) & set(server)
    assert f"--nproc-per-node={len(learner)}" in plan["train"].words
    assert plan["serve"].words[plan["serve"].words.index("--tensor-parallel-size") + 1] == str(len(server))


def test_the_memory_is_counted_from_the_model_that_is_meant(settings: SweSettings) -> None:
    """Given a model of this shape, without its weights, then the estimate counts the parameters it has."""
    import torch

    shape = settings.shape
    config = Qwen3Config(
        vocab_size=shape.vocabulary, hidden_size=shape.hidden, intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim, tie_word_embeddings=shape.tied,
    )  # fmt: skip
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    layer, _, ends = parameters(shape)
    assert shape.layers * layer + ends == pytest.approx(sum(p.numel() for p in model.parameters()), rel=1e-3)


def test_it_fits_and_says_so_when_it_does_not(settings: SweSettings, plan: dict[str, Command]) -> None:
    config = OnlineConfig.model_validate(plan["train"].config)
    assert all(need.fits for need in needs(settings, config)), [
        need for need in needs(settings, config) if not need.fits
    ]
    small = settings.model_copy(update={"machine": settings.machine.model_copy(update={"gpu_memory_gib": 40.0})})
    assert not needs(small, config)[0].fits
    lora = OnlineConfig.model_validate({**plan["train"].config, "policy_trains": "lora"})  # type: ignore[dict-item]
    assert needs(settings, lora)[0].total < 0.8 * needs(settings, config)[0].total


def test_what_the_recipe_sets_itself_is_not_set_twice(settings: SweSettings) -> None:
    with pytest.raises(TrainConfigError, match="concurrency"):
        SweSettings.model_validate({**settings.model_dump(), "learner": {**settings.learner, "concurrency": 3}})
