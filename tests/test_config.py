"""Configs are filled from TOML and options, and say exactly what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import Field

from agentgym.config import Config, ConfigError, load_config


class Sampling(Config):
    temperature: float = Field(1.0, ge=0)


class Job(Config):
    concurrency: int = Field(4, ge=1)
    tasks: list[str] = Field(default_factory=list)
    sampling: Sampling = Sampling()


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_options_win_over_files_and_later_files_over_earlier(tmp_path: Path) -> None:
    first = write(tmp_path / "a.toml", "concurrency = 2\n[sampling]\ntemperature = 0.5\n")
    second = write(tmp_path / "b.toml", "concurrency = 3\n")
    job = load_config(Job, [first, second], {"tasks": ["x"]})
    assert (job.concurrency, job.sampling.temperature, job.tasks) == (3, 0.5, ["x"])
    assert load_config(Job, [first], {"sampling.temperature": 0.9}).sampling.temperature == 0.9


def test_an_unknown_key_names_the_nearest_valid_one(tmp_path: Path) -> None:
    file = write(tmp_path / "run.toml", "concurency = 8\n[sampling]\ntemprature = 1\n")
    with pytest.raises(ConfigError) as caught:
        load_config(Job, [file])
    message = str(caught.value)
    assert 'concurency: unknown key — did you mean "concurrency"?' in message
    assert 'sampling.temprature: unknown key — did you mean "temperature"?' in message
    assert str(file) in message


def test_every_fault_is_listed_at_once_with_the_value_given(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(Job, [], {"concurrency": 0, "sampling.temperature": -1.0})
    assert "concurrency:" in str(caught.value)
    assert "(got -1.0)" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"), [("concurrency = ", "not valid TOML"), (None, "no such file")], ids=["broken", "absent"]
)
def test_an_unreadable_file_is_named(tmp_path: Path, text: str | None, complaint: str) -> None:
    file = tmp_path / "run.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        load_config(Job, [file])


def test_a_scalar_where_a_table_belongs_is_an_error_not_a_crash(tmp_path: Path) -> None:
    file = write(tmp_path / "run.toml", "sampling = 3\n")
    with pytest.raises(ConfigError, match="sampling"):
        load_config(Job, [file], {"sampling.temperature": 0.5})
