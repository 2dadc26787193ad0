"""The policy as a learner needs it: log π of the action tokens, exactly, without a [T, vocabulary] tensor.

Hidden states are computed for whole rows, logits only at the positions that predict an action token, in chunks that are
recomputed in the backward pass. Logits are divided by the temperature of the call, because the recorded log
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
from trainer.batch import MicroBatch
from trainer.errors import ModelError
from trainer.shared_prompt import hidden_states

Precision = Literal["float32", "bfloat16"]
CHUNK = 256
"""Action positions whose logits exist at one time."""
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".safetensors.index.json", ".bin.index.json")


def load_policy(path: Path) -> PreTrainedModel:
    """A causal language model with float32 weights and no dropout. ModelNotFound where `path` holds no whole one,
    ModelError where it is one that we cannot score exactly.
    """
    model = load_causal_lm(path, dtype=torch.float32, attn_implementation="sdpa")
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


def action_logprobs(
    model: PreTrainedModel,
    micro: MicroBatch,
    temperature: Tensor,
    *,
    precision: Precision = "float32",
    entropy_gradient: bool = False,
) -> tuple[Tensor, Tensor]:
    """log π and entropy of the micro-batch's action tokens: float32[n] each, nats, at the given temperature[n]."""
    with autocast(precision):
        _, hidden = hidden_states(backbone(model), micro.prompt, micro.token_ids[:, micro.shared :])
    before = hidden[micro.row, micro.position - micro.shared - 1].float()
    targets = micro.token_ids[micro.row, micro.position]
    head: Any = model.get_output_embeddings()
    weight, bias = head.weight, getattr(head, "bias", None)
    logprobs, entropies = [], []
    for part in torch.arange(len(targets)).split(CHUNK):
        inputs = (before[part], weight, bias, targets[part], temperature[part], entropy_gradient)
        if torch.is_grad_enabled():
            logprob, entropy = checkpoint(_score, *inputs, use_reentrant=False)
        else:
            logprob, entropy = _score(*inputs)
        logprobs.append(logprob)
        entropies.append(entropy)
    return torch.cat(logprobs), torch.cat(entropies)


@torch.no_grad()
def sequence_logprobs(model: PreTrainedModel, token_ids: Tensor, *, first: int) -> Tensor:
    """log π of the tokens from position `first` on, at temperature 1. token_ids: int64[T]; returns float32[T − first]."""
    position = torch.arange(first, len(token_ids))
    row = torch.zeros_like(position)
    ends, closes = torch.tensor([len(token_ids) - 1]), torch.tensor([0])
    micro = MicroBatch(token_ids[None], row, position, position - first, ends, closes)
    return action_logprobs(model, micro, torch.ones(len(position)))[0]


def save_untied(model: PreTrainedModel, target: Path, source: Path) -> None:
    """Write `model` as a checkpoint whose output head is a tensor of its own, with the tokenizer files of `source`.

    A vLLM CPU server that reloads weights keeps a tied head at its old value; see `agentgym.models.untie`. The model itself
    stays as it is. `target` appears whole or not at all.
    """
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    head = model.get_output_embeddings()
    state = {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}
    own = next(name for name, module in model.named_modules() if module is head)
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


def _score(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, temperature: Tensor, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    logits = nn.functional.linear(hidden, weight, bias) / temperature[:, None]
    distribution = logits.log_softmax(-1)
    logprob = distribution.gather(1, targets[:, None])[:, 0]
    with contextlib.nullcontext() if entropy_gradient else torch.no_grad():
        entropy = -(distribution.exp() * distribution).sum(-1)
    return logprob, entropy


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Progress bars belong to the caller, not to transformers."""
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.enable_progress_bar()


def choose_checkpointing(module: nn.Module, micro: MicroBatch, above: int) -> None:
    """Recompute activations for a micro-batch of more than `above` tokens; a shared prompt's keys cannot be."""
    checkpoint_activations(module, micro.computed > above and not micro.shared)


def checkpoint_activations(module: nn.Module, on: bool) -> None:
    """Recompute each decoder layer in the backward pass (less memory, a third more time; the result is the same)."""
    for layer in module.modules():
        if hasattr(layer, "gradient_checkpointing"):
            layer.__dict__.update(gradient_checkpointing=on, _gradient_checkpointing_func=_recompute)


_recompute = functools.partial(checkpoint, use_reentrant=False)
