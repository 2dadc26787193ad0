"""LoRA (Hu et al. 2021): W + (α/r) B A, with W frozen, by peft. What is saved as policy is the sum; served is the sum, or the
adapters on a server that has W already.

Adapters are put into the linear layers of the decoder, never into embedding or head. B starts at zero, so training starts
at the policy itself. Weights are merged into a copy, on the way out: W itself never changes, so a resumed run is exact.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import save_file
from torch import Tensor, nn

from trainer.config import LearnerConfig
from trainer.errors import ModelError

if TYPE_CHECKING:
    from peft import LoraConfig

_BASE, _A, _B = ".base_layer.", ".lora_A.default.", ".lora_B.default."


def adapt(model: nn.Module, config: LearnerConfig, *, where: Callable[[str], bool]) -> LoraConfig:
    """Freeze `model` and add adapters to its linear layers whose name `where` accepts. ModelError where there is none."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ModuleNotFoundError as error:
        raise ModelError("LoRA needs peft, which is not installed", hint="pip install 'agentgym[lora]'") from error
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear) and where(name)]
    if not names:
        raise ModelError(f"{type(model).__name__} has no linear layer that an adapter could be added to")
    lora = LoraConfig(r=config.lora_rank, lora_alpha=config.lora_alpha, target_modules=names, lora_dropout=0.0)
    inject_adapter_in_model(lora, model)
    return lora


def is_adapter(name: str) -> bool:
    """Whether a tensor of a state dict is an adapter's."""
    return _A in name or _B in name


def merged(state: Mapping[str, Tensor], config: LearnerConfig) -> dict[str, Tensor]:
    """The state dict of the same model without adapters, their products added in."""
    found: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if is_adapter(name):
            continue
        if _BASE in name and name.endswith(".weight"):
            a, b = state[name.replace(_BASE, _A)], state[name.replace(_BASE, _B)]
            tensor = tensor + (config.lora_alpha / config.lora_rank) * (b @ a)
        found[name.replace(_BASE, ".")] = tensor
    return found


def peft_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The adapters under the names of peft's own files."""
    return {
        f"base_model.model.{name.replace('.default.', '.')}": tensor
        for name, tensor in state.items()
        if is_adapter(name)
    }


def save_adapters(lora: LoraConfig, state: Mapping[str, Tensor], target: Path, base: Path) -> None:
    """Write adapters in peft's format, with the name of the model they were added to. `target` appears whole or not at all."""
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    lora.base_model_name_or_path = str(base)
    lora.save_pretrained(str(partial))
    save_file(peft_state(state), partial / "adapter_model.safetensors")
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)


def from_peft(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """The inverse of `peft_state`."""
    names = {name: name.removeprefix("base_model.model.") for name in state}
    for part in (_A, _B):
        short = part.replace(".default.", ".")
        names = {name: own.replace(short, part) for name, own in names.items()}
    return {own: state[name] for name, own in names.items()}
