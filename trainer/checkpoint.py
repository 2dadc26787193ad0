"""A checkpoint is one directory, whole or absent.

    step-000007/
      policy/            a transformers directory with tokenizer files: servable as it is, adapters merged in
      adapter/           with LoRA, the adapters in peft's format; a resumed run adds them to the model it began with
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
from torch import Tensor

from trainer.adapters import from_peft, save_adapters
from trainer.config import TrainConfig
from trainer.errors import CheckpointError
from trainer.learner import Learner
from trainer.models import copy_sidecars, load_policy, quiet
from trainer.ranks import Ranks, fill, like, whole, whole_state


class TrainState(BaseModel):
    """Where a run stands."""

    model_config = ConfigDict(extra="forbid")
    step: int = 0
    version: int = 0
    warmup_done: int = 0
    used: list[str] = Field(default_factory=list)
    credit: str = ""
    critic_layers: int | None = None
    critic_trains: str = "projections"
    policy_trains: str = "full"
    lora_rank: int | None = None
    lora_alpha: int | None = None
    """Rank and scale of adapters, where there are any."""
    base: str | None = None
    """The model that adapters were added to."""

    @classmethod
    def begin(cls, config: TrainConfig) -> TrainState:
        """Of a run that starts."""
        return cls(version=config.model_version, **_identity(config))


def _identity(config: TrainConfig) -> dict[str, Any]:
    """What optimizer states and weights fit only as long as it stays the same."""
    lora = "lora" in (config.policy_trains, config.critic_trains)
    return {
        "credit": config.credit,
        "critic_layers": config.critic_layers,
        "critic_trains": config.critic_trains,
        "policy_trains": config.policy_trains,
        "lora_rank": config.lora_rank if lora else None,
        "lora_alpha": config.lora_alpha if lora else None,
        "base": str(config.model.resolve()) if config.policy_trains == "lora" else None,
    }


def save(output: Path, learner: Learner, state: TrainState, *, source: Path, keep: int) -> Path:
    """Write `output`/step-NNNNNN; `source` is the model directory whose tokenizer files go along. Returns its path.

    All ranks call it, because weights are gathered; the one that leads writes.
    """
    weights, adapters = learner.weights(), learner.adapters()
    critic = whole_state(learner.value.critic) if learner.value is not None else {}
    optimizers = {"policy": _whole_optimizer(learner.optimizer)}
    if learner.value is not None:
        optimizers["value"] = _whole_optimizer(learner.value.optimizer)
    final = output / f"step-{state.step:06d}"
    if not learner.ranks.leads:
        return final
    partial = output / f".{final.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        (partial / "policy").mkdir(parents=True)
        with quiet():
            learner.policy.save_pretrained(partial / "policy", state_dict=weights)
        copy_sidecars(source, partial / "policy")
        if learner.lora is not None and state.base is not None:
            save_adapters(learner.lora, adapters, partial / "adapter", Path(state.base))
        if learner.value is not None:
            save_file(critic, partial / "critic.safetensors")
        torch.save({"optimizers": optimizers, "random": torch.get_rng_state()}, partial / "training.pt")
        (partial / "state.json").write_text(state.model_dump_json(indent=1))
        (partial / "manifest.json").write_text(json.dumps(_manifest(partial), indent=1))
        for path in [*_files(partial), *(path for path in partial.iterdir() if path.is_dir()), partial]:
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
    # One of a later step is torn: this run did not go on from it. To ask each whether it is whole would mean to hash it.
    earlier = [path for path in sorted(output.glob("step-*")) if path.name < final.name]
    for old in earlier[: max(0, len(earlier) - (keep - 1))]:
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


def load(path: Path, config: TrainConfig, ranks: Ranks) -> tuple[Learner, TrainState]:
    """The learner and state of a checkpoint. CheckpointError where it does not fit the config."""
    try:
        state = TrainState.model_validate_json((path / "state.json").read_text())
    except (OSError, ValidationError) as error:
        raise CheckpointError(f"{path} is not a checkpoint of this version: {error}") from error
    for name, value in _identity(config).items():
        if getattr(state, name) != value:
            raise CheckpointError(
                f"{path} was trained with {name} = {getattr(state, name)!r}, the config says {value!r}",
                hint="use another output directory, or its policy/ as the model of a new run",
            )
    policy = load_policy(config.model if config.policy_trains == "lora" else path / "policy")
    learner = Learner(policy, config, version=state.version, ranks=ranks)
    if learner.lora is not None:
        fill(learner.policy, from_peft(load_file(path / "adapter" / "adapter_model.safetensors")))
    saved = torch.load(path / "training.pt", weights_only=True)
    _restore(learner.optimizer, saved["optimizers"]["policy"])
    if learner.value is not None:
        learner.value.warmup_done = state.warmup_done
        fill(learner.value.critic, load_file(path / "critic.safetensors"))
        _restore(learner.value.optimizer, saved["optimizers"]["value"])
    torch.set_rng_state(saved["random"])
    return learner, state


def _restore(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    """Moments from the checkpoint, hyperparameters from the config: a changed learning rate takes effect."""
    wanted = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state = {
        index: {name: _shaped(parameters[index], value) for name, value in values.items()}
        for index, values in saved["state"].items()
    }
    optimizer.load_state_dict({**saved, "state": state})
    for group, values in zip(optimizer.param_groups, wanted, strict=True):
        group.update(values)


def _shaped(parameter: Tensor, value: Any) -> Any:
    """A saved moment, sharded as its parameter is; anything else as it is."""
    moment = isinstance(value, Tensor) and value.shape == parameter.shape
    return like(parameter, value) if moment else value


def _whole_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The state dict, whole and on the CPU. All ranks must ask together."""
    state = optimizer.state_dict()
    moments = {
        index: {name: whole(value) if isinstance(value, Tensor) else value for name, value in values.items()}
        for index, values in state["state"].items()
    }
    return {**state, "state": moments}


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
