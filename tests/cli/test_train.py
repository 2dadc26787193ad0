"""`agentgym train --model` takes the names that `rollout --model` takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.cli import train
from agentgym.errors import InputError
from agentgym.models import DEFAULT_MODEL
from trainer.config import TrainConfig


def config(model: str) -> TrainConfig:
    return TrainConfig.model_validate({"model": model, "store": "s.db", "output": "out"})


def test_a_shipped_name_becomes_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "resolve", lambda name: tmp_path / name)  # no download here
    assert train.with_directories(config(DEFAULT_MODEL)).model == tmp_path / DEFAULT_MODEL


def test_a_directory_stays_as_it_is(tmp_path: Path) -> None:
    assert train.with_directories(config(str(tmp_path))).model == tmp_path


@pytest.mark.parametrize("model", ["http://localhost:8000", "no/such/directory"])
def test_what_holds_no_weights_is_refused(model: str) -> None:
    with pytest.raises(InputError):
        train.with_directories(config(model))
