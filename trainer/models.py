"""The policy as a learner needs it: log π of the action tokens, exactly, without a [T, vocabulary] tensor.

Hidden states are computed for whole rows, packed end to end; logits only at the positions that predict an action token,
a chunk at a time (`trainer.head`). Logits are divided by the temperature of the call, because the recorded log
probabilities are those of the tempered distribution. Log probabilities are float32 whatever the compute type of the
backbone.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.utils import logging as transformers_logging

from agentgym.models import load_causal_lm
from trainer import head
from trainer.attention import LAYERS, PACKED
from trainer.batch import MicroBatch
from trainer.errors import ModelError
from trainer.ranks import whole_state

Precision = Literal["float32", "bfloat16"]
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".safetensors.index.json", ".bin.index.json")


def load_policy(path: Path) -> PreTrainedModel:
    """A causal language model with float32 weights and no dropout. ModelNotFound where `path` holds no whole one,
    ModelError where it is one that we cannot score exactly.
    """
    model = load_causal_lm(path, dtype=torch.float32)
    prepare(model)
    return model


def prepare(model: PreTrainedModel) -> None:
    """Switch off what would make training score another distribution than the one that was sampled."""
    config: Any = model.config
    for name in ("final_logit_softcapping", "logit_scale", "logits_scaling"):
        if getattr(config, name, None) not in (None, 1, 1.0):
            raise ModelError(
                f"{type(model).__name__} rescales its logits ({name} = {getattr(config, name)})",
                hint="the trainer reads logits straight from the output embedding; use another model",
            )
    if others := set(getattr(config.get_text_config(), "layer_types", None) or ()) - LAYERS:
        raise ModelError(
            f"{type(model).__name__} has layers of type {', '.join(sorted(others))}, which carry state from one packed "
            "sequence to the next",
            hint="the trainer packs sequences; use a model of attention layers",
        )
    scaling = getattr(config.get_text_config(), "rope_parameters", None) or {}
    if (kind := scaling.get("rope_type")) in ("dynamic", "longrope"):
        raise ModelError(
            f"{type(model).__name__} turns its positions by the longest sequence beside them (rope_type {kind})",
            hint="the trainer packs sequences; use a model whose positions depend on nothing else",
        )
    if not getattr(model, "_supports_attention_backend", False):
        raise ModelError(
            f"{type(model).__name__} attends by code of its own, which does not keep packed sequences apart",
            hint="use a model whose attention transformers lets be exchanged",
        )
    model.set_attn_implementation(PACKED)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in list(vars(module).items()):
            if isinstance(value, float) and ("dropout" in name or name == "layerdrop"):
                module.__dict__[name] = 0.0
    model.train()


def backbone(model: PreTrainedModel) -> nn.Module:
    """The model without its language-model head."""
    return getattr(model, model.base_model_prefix)


def decoder_layers(model: PreTrainedModel) -> list[nn.Module]:
    """The layers of the decoder, where it has them by their usual name."""
    return list(getattr(backbone(model), "layers", ()))


def in_decoder(model: PreTrainedModel) -> Callable[[str], bool]:
    """Whether a module of that name belongs to the decoder, and not to the language-model head."""
    return lambda name: name.startswith(f"{model.base_model_prefix}.")


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """bfloat16: compute type of the backbone's matrix products; weights, residual stream and log probabilities stay float32."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bfloat16" else contextlib.nullcontext()


@torch.no_grad()
def action_logprobs(
    model: PreTrainedModel, micro: MicroBatch, temperature: Tensor, *, precision: Precision = "float32"
) -> tuple[Tensor, Tensor]:
    """log π and entropy of the micro-batch's action tokens: float32[n] each, nats, at the given temperature[n], on the CPU."""
    logprobs, entropies = head.score(_tokens(model, micro, temperature, precision))
    return logprobs.cpu(), entropies.cpu()


def action_loss(
    model: PreTrainedModel,
    micro: MicroBatch,
    temperature: Tensor,
    loss_of: head.LossOf,
    *,
    precision: Precision = "float32",
    entropy_gradient: bool = False,
    whole: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Of the micro-batch's action tokens: their loss, with gradient; log π and entropy, float32[n], without.

    loss_of: see `trainer.head`; it gets all n at once if `whole`, and the entropy with gradient if `entropy_gradient`.
    """
    tokens = _tokens(model, micro, temperature, precision)
    loss, logprobs, entropies = head.loss(tokens, loss_of, entropy_gradient=entropy_gradient, whole=whole)
    return loss, logprobs.cpu(), entropies.cpu()


class Policy(nn.Module):
    """`action_loss` or, without a loss, `action_logprobs` as one forward pass: what FSDP gathers the head's weights for."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def whole_state(self, where: Callable[[str], bool] = lambda name: True) -> dict[str, Tensor]:
        """The model's state dict, as far as `where` wants a name, whole and on the CPU. All ranks must ask together."""
        return {name.removeprefix("model."): tensor for name, tensor in whole_state(self, where).items()}

    def forward(
        self, micro: MicroBatch, temperature: Tensor, loss_of: head.LossOf | None = None, **options: Any
    ) -> tuple[Tensor, ...]:
        if loss_of is None:
            return action_logprobs(self.model, micro, temperature, **options)
        return action_loss(self.model, micro, temperature, loss_of, **options)


def hidden_states(decoder: nn.Module, micro: MicroBatch, precision: Precision, **inputs: Tensor) -> Tensor:
    """[T, H], what a decoder makes of the packed rows, or of `inputs_embeds` in their place, on the decoder's device."""
    device = next(decoder.parameters()).device
    inputs = inputs or {"input_ids": micro.token_ids[None].to(device)}
    with autocast(precision, device):
        found = decoder(
            **inputs,
            position_ids=micro.positions[None].to(device),
            lengths=micro.lengths,
            follows=micro.follows,
            use_cache=False,
        )
    return found.last_hidden_state[0]


def _tokens(model: PreTrainedModel, micro: MicroBatch, temperature: Tensor, precision: Precision) -> head.Tokens:
    hidden = hidden_states(backbone(model), micro, precision)
    device = hidden.device
    before = hidden[(micro.actions - 1).to(device)].float()
    last: Any = model.get_output_embeddings()
    targets = micro.token_ids[micro.actions].to(device)
    return head.Tokens(before, last.weight, getattr(last, "bias", None), targets, temperature.to(device))


def save_untied(model: PreTrainedModel, state: Mapping[str, Tensor], target: Path, source: Path) -> None:
    """Write weights of `model` as a checkpoint whose output head is a tensor of its own, with the tokenizer files of `source`.

    A vLLM CPU server that reloads weights keeps a tied head at its old value; see `agentgym.models.untie`. `target` appears
    whole or not at all.
    """
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    last = model.get_output_embeddings()
    own = next(name for name, module in model.named_modules() if module is last)
    state = {name: tensor.contiguous() for name, tensor in state.items()}
    state[f"{own}.weight"] = state[f"{own}.weight"].clone()
    save_file(state, partial / "model.safetensors", metadata={"format": "pt"})
    config: Any = copy.deepcopy(model.config)
    config.tie_word_embeddings = False
    config.save_pretrained(partial)
    copy_sidecars(source, partial)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)


def copy_sidecars(source: Path, target: Path) -> None:
    """Everything in a model directory that is not weights (tokenizer, templates), unless `target` has its own."""
    for file in source.iterdir():
        if file.is_file() and not file.name.endswith(WEIGHTS) and not (target / file.name).exists():
            shutil.copyfile(file, target / file.name)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Progress bars belong to the caller, not to transformers."""
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.enable_progress_bar()


def choose_checkpointing(module: nn.Module, micro: MicroBatch, above: int) -> None:
    """Recompute activations for a micro-batch of more than `above` tokens."""
    checkpoint_activations(module, micro.tokens > above)


def checkpoint_activations(module: nn.Module, on: bool) -> None:
    """Recompute each decoder layer in the backward pass (less memory, a third more time; the result is the same)."""
    for layer in module.modules():
        if hasattr(layer, "gradient_checkpointing"):
            layer.__dict__.update(gradient_checkpointing=on, _gradient_checkpointing_func=_recompute)


_recompute = functools.partial(checkpoint, use_reentrant=False)
