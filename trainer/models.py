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
from collections.abc import Iterator
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
from trainer.evidence import Row

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
    model.set_attn_implementation(PACKED)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.__dict__["attention_dropout"] = 0.0
    model.train()


def backbone(model: PreTrainedModel) -> nn.Module:
    """The model without its language-model head."""
    return getattr(model, model.base_model_prefix)


def autocast(precision: Precision) -> AbstractContextManager[Any]:
    """bfloat16: compute type of matrix products; weights stay float32."""
    return torch.autocast("cpu", torch.bfloat16) if precision == "bfloat16" else contextlib.nullcontext()


@torch.no_grad()
def action_logprobs(
    model: PreTrainedModel, micro: MicroBatch, temperature: Tensor, *, precision: Precision = "float32"
) -> tuple[Tensor, Tensor]:
    """log π and entropy of the micro-batch's action tokens: float32[n] each, nats, at the given temperature[n]."""
    return head.score(_tokens(model, micro, temperature, precision))


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
    return head.loss(tokens, loss_of, entropy_gradient=entropy_gradient, whole=whole)


def hidden_states(decoder: nn.Module, micro: MicroBatch, precision: Precision, **inputs: Tensor) -> Tensor:
    """[T, H], what a decoder makes of the packed rows, or of `inputs_embeds` in their place."""
    inputs = inputs or {"input_ids": micro.token_ids[None]}
    with autocast(precision):
        found = decoder(**inputs, position_ids=micro.positions[None], lengths=micro.lengths, use_cache=False)
    return found.last_hidden_state[0]


def _tokens(model: PreTrainedModel, micro: MicroBatch, temperature: Tensor, precision: Precision) -> head.Tokens:
    before = hidden_states(backbone(model), micro, precision)[micro.actions - 1].float()
    last: Any = model.get_output_embeddings()
    targets = micro.token_ids[micro.actions]
    return head.Tokens(before, last.weight, getattr(last, "bias", None), targets, temperature)


@torch.no_grad()
def sequence_logprobs(model: PreTrainedModel, token_ids: Tensor, *, first: int) -> Tensor:
    """log π of the tokens from position `first` on, at temperature 1. token_ids: int64[T]; returns float32[T − first]."""
    positions = torch.arange(first, len(token_ids))
    nothing = torch.zeros(len(positions))
    row = Row(token_ids, positions, nothing, nothing, nothing, nothing)
    return action_logprobs(model, MicroBatch.packed([row], [0], [0]), torch.ones(len(positions)))[0]


def save_untied(model: PreTrainedModel, target: Path, source: Path) -> None:
    """Write `model` as a checkpoint whose output head is a tensor of its own, with the tokenizer files of `source`.

    A vLLM CPU server that reloads weights keeps a tied head at its old value; see `agentgym.models.untie`. The model itself
    stays as it is. `target` appears whole or not at all.
    """
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    last = model.get_output_embeddings()
    state = {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}
    own = next(name for name, module in model.named_modules() if module is last)
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
