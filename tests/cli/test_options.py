"""An option and a TOML key are the same thing under the same name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

from agentgym.cli.options import config_command, expand_at_files
from agentgym.config import Config, ConfigError


class Sampling(Config):
    temperature: float = Field(1.0, description="Softmax temperature.")


class Job(Config):
    tasks: list[str] = Field([], description="Task ids.")
    backend: Literal["auto", "docker"] = Field("auto", description="Where commands run.")
    out: Path = Field(Path("runs"), description="Where results go.")
    seed: int | None = Field(0, description="Seed of the run.")
    store: str = Field("runs/a.db", description="Where results are kept.")
    resume: bool = Field(False, description="Only what is missing.")
    sampling: Sampling = Sampling()


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()

    @app.callback()
    def root() -> None: ...

    @config_command(app, Job, "run", positional="tasks")
    def run(config: Job, *, as_json: bool) -> None:
        """Run a job."""
        typer.echo(json.dumps({"json": as_json, **config.model_dump(mode="json")}))

    return app


def test_options_files_and_positionals_meet_in_one_config(app: typer.Typer, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('tasks = ["from-file"]\nseed = 1\n[sampling]\ntemperature = 0.3\n')
    arguments = expand_at_files(["run", "@", str(file), "--seed", "7", "--resume", "--json"])
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    config = json.loads(done.stdout)
    assert config["tasks"] == ["from-file"]
    assert (config["seed"], config["resume"], config["json"]) == (7, True, True)
    assert config["sampling"]["temperature"] == 0.3

    done = CliRunner().invoke(app, ["run", "a", "b", "--sampling.temperature", "2"], catch_exceptions=False)
    config = json.loads(done.stdout)
    assert (config["tasks"], config["sampling"]["temperature"]) == (["a", "b"], 2.0)


def test_a_file_can_switch_on_what_the_command_line_switches_off(app: typer.Typer, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("resume = true\n")
    done = CliRunner().invoke(app, ["run", "--config", str(file), "--no-resume"], catch_exceptions=False)
    assert json.loads(done.stdout)["resume"] is False


def test_a_wrong_choice_names_the_choices(app: typer.Typer) -> None:
    with pytest.raises(ConfigError, match="'auto' or 'docker'"):
        CliRunner().invoke(app, ["run", "--backend", "podman"], catch_exceptions=False)


def test_help_shows_every_field_with_its_description_and_default(app: typer.Typer) -> None:
    text = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).stdout
    for words in ("--sampling.temperature", "Softmax temperature.", "(default: 1.0)", "--no-resume", "--config"):
        assert words in text
    assert "auto|docker" in text
    assert "Seed of the run. (default: 0)" in text
    assert "False" not in text


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [([], "env.db"), (["@f.toml"], "file.db"), (["@f.toml", "--store", "option.db"], "option.db")],
)
def test_the_environment_names_the_store_where_nothing_else_does(
    app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], wanted: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTGYM_STORE", "env.db")
    Path("f.toml").write_text('store = "file.db"\n')
    done = CliRunner().invoke(app, expand_at_files(["run", *arguments]), catch_exceptions=False)
    assert json.loads(done.stdout)["store"] == wanted


def test_everything_after_a_double_dash_is_left_alone() -> None:
    assert expand_at_files(["a", "@f", "--", "@g"]) == ["a", "--config", "f", "--", "@g"]
