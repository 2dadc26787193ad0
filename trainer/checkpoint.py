"""A checkpoint is one directory, whole or absent.

    step-000007/
      policy/            a transformers directory with tokenizer files: servable as it is
      critic.safetensors
      training.pt        optimizer states and the random generator's
      state.json         step, policy version, warm-up done, trajectories used, config
      manifest.json      size and sha256 of every other file

It is written under a temporary name, flushed, and renamed; `newest` skips directories whose files do not match their
manifest, so a torn disk costs one step and not the run. On the CPU a resumed run continues bit for bit.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from trainer.config import LearnerConfig
from trainer.errors import CheckpointError
from trainer.learner import Learner
from trainer.models import copy_sidecars, load_policy, quiet


class TrainState(BaseModel):
    """Where a run stands."""

    model_config = ConfigDict(extra="forbid")
    step: int = 0
    version: int = 0
    warmup_done: int = 0
    used: list[str] = Field(default_factory=list)
    credit: str = ""
    critic_layers: int | None = None


def save(output: Path, learner: Learner, state: TrainState, *, source: Path, keep: int) -> Path:
    """Write `output`/step-NNNNNN; `source` is the model directory whose tokenizer files go along. Returns its path."""
    final = output / f"step-{state.step:06d}"
    partial = output / f".{final.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        (partial / "policy").mkdir(parents=True)
        with quiet():
            learner.policy.save_pretrained(partial / "policy")
        copy_sidecars(source, partial / "policy")
        optimizers: dict[str, Any] = {"policy": learner.optimizer.state_dict()}
        if learner.value is not None:
            save_file(_contiguous(learner.value.critic), partial / "critic.safetensors")
            optimizers["value"] = learner.value.optimizer.state_dict()
        torch.save({"optimizers": optimizers, "random": torch.get_rng_state()}, partial / "training.pt")
        (partial / "state.json").write_text(state.model_dump_json(indent=1))
        (partial / "manifest.json").write_text(json.dumps(_manifest(partial), indent=1))
        for path in [*_files(partial), partial / "policy", partial]:
            _flush(path)
        if final.exists():
            shutil.rmtree(final)
        partial.rename(final)
        _flush(output)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise CheckpointError(
            f"cannot write checkpoint {final}: {error}", hint="free disk space, then resume"
        ) from error
    for old in sorted(output.glob("step-*"))[:-keep]:
        shutil.rmtree(old)
    return final


def newest(output: Path) -> Path | None:
    """The newest checkpoint that is whole, or None."""
    for path in sorted(output.glob("step-*"), reverse=True):
        if is_whole(path):
            return path
    return None


def is_whole(path: Path) -> bool:
    try:
        return json.loads((path / "manifest.json").read_text()) == _manifest(path)
    except (OSError, ValueError):
        return False


def load(path: Path, config: LearnerConfig) -> tuple[Learner, TrainState]:
    """The learner and state of a checkpoint. CheckpointError where it does not fit the config."""
    try:
        state = TrainState.model_validate_json((path / "state.json").read_text())
    except (OSError, ValidationError) as error:
        raise CheckpointError(f"{path} is not a checkpoint of this version: {error}") from error
    for name in ("credit", "critic_layers"):
        if getattr(state, name) != getattr(config, name):
            raise CheckpointError(
                f"{path} was trained with {name} = {getattr(state, name)!r}, the config says {getattr(config, name)!r}",
                hint="use another output directory, or its policy/ as the model of a new run",
            )
    learner = Learner(load_policy(path / "policy"), config, version=state.version)
    saved = torch.load(path / "training.pt", weights_only=True)
    _restore(learner.optimizer, saved["optimizers"]["policy"])
    if learner.value is not None:
        learner.value.warmup_done = state.warmup_done
        learner.value.critic.load_state_dict(load_file(path / "critic.safetensors"))
        _restore(learner.value.optimizer, saved["optimizers"]["value"])
    torch.set_rng_state(saved["random"])
    return learner, state


def _restore(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    """Moments from the checkpoint, hyperparameters from the config: a changed learning rate takes effect."""
    wanted = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    optimizer.load_state_dict(saved)
    for group, values in zip(optimizer.param_groups, wanted, strict=True):
        group.update(values)


def _contiguous(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.contiguous() for name, tensor in module.state_dict().items()}


def _files(directory: Path) -> Iterator[Path]:
    return (path for path in sorted(directory.rglob("*")) if path.is_file())


def _manifest(directory: Path) -> dict[str, list[Any]]:
    found = {}
    for path in _files(directory):
        if path.name != "manifest.json":
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[str(path.relative_to(directory))] = [path.stat().st_size, digest]
    return found


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
