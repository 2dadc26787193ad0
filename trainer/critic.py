"""The critic: V of the prefix *before* each action token, from a copy of the policy.

The backbone is the policy's at the start of training; the scalar head starts at zero, so that the first values are 0
and the first advantages are the returns. Attention, embeddings and norms stay frozen, the MLP projections and the
head are trained (SAO: a full-parameter critic costs 7 points).

`layers` limits training to the topmost decoder layers. What lies below never changes then, so its output is computed
once per batch and kept: K updates and both value passes cost only the top.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from trainer.batch import MicroBatch
from trainer.errors import ModelError
from trainer.models import Precision, autocast, backbone
from trainer.shared_prompt import hidden_states


class Critic(nn.Module):
    """`values` of a micro-batch; `trunk` is the frozen lower part, `top` the trained decoder layers with the final
    norm.
    """

    def __init__(self, policy: PreTrainedModel, *, layers: int | None = None) -> None:
        super().__init__()
        source: Any = backbone(policy)
        if not hasattr(source, "layers") or not hasattr(source, "norm") or not hasattr(source, "embed_tokens"):
            raise ModelError(
                f"{type(source).__name__} is not a stack of decoder layers; a critic cannot be made from it"
            )
        depth = len(source.layers)
        if layers is not None and not 1 <= layers <= depth:
            raise ModelError(f"critic layers = {layers}, but the policy has {depth} decoder layers")
        self.trunk, self.top = _split(source, depth - (layers or depth))
        self.head = nn.Linear(policy.config.get_text_config().hidden_size, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        _freeze(self)
        self._check_split(source)

    def features(self, micro: MicroBatch, precision: Precision = "float32") -> Tensor:
        """What enters the trained part; constant while the critic trains, so callers may keep it.

        [R, T, H]; where S tokens are shared, [1, S + R(T − S), H]: those first, then what is each row's own.
        """
        own = micro.token_ids[:, micro.shared :]
        with torch.no_grad(), autocast(precision):
            if self.trunk is None:
                before = None if micro.prompt is None else self.top.embed_tokens(micro.prompt)
                after = self.top.embed_tokens(own)
            else:
                before, after = hidden_states(self.trunk, micro.prompt, own)
            return after if before is None else torch.cat([before, after.reshape(1, -1, after.shape[-1])], dim=1)

    def values(self, micro: MicroBatch, features: Tensor, precision: Precision = "float32") -> tuple[Tensor, Tensor]:
        """V before each action token, float32[n], and V after each row's last token, float32[R]."""
        before, own = None, features
        if micro.shared:
            before = features[:, : micro.shared]
            own = features[:, micro.shared :].reshape(len(micro.ends), -1, features.shape[-1])
        with autocast(precision):
            _, hidden = hidden_states(self.top, before, own)
        rows = torch.arange(len(micro.ends))
        at = torch.cat([hidden[micro.row, micro.position - micro.shared - 1], hidden[rows, micro.ends - micro.shared]])
        values = self.head(at.float())[:, 0]
        return values[: len(micro.row)], values[len(micro.row) :]

    def trained(self) -> Iterator[nn.Parameter]:
        return (parameter for parameter in self.parameters() if parameter.requires_grad)

    @torch.no_grad()
    def _check_split(self, source: nn.Module) -> None:
        """The two parts in a row must be the whole: an architecture that does more between layers is refused."""
        probe = torch.arange(1, 9)[None]
        one = torch.tensor([0])
        micro = MicroBatch(probe, one, one, one, one, one)
        split = self.top(inputs_embeds=self.features(micro), use_cache=False).last_hidden_state
        if not torch.allclose(split, source(input_ids=probe, use_cache=False).last_hidden_state, atol=1e-4):
            raise ModelError(
                f"{type(source).__name__} is not a plain stack of decoder layers; a critic cannot be split from it"
            )


def _split(source: Any, at: int) -> tuple[nn.Module | None, Any]:
    """Copies of layers [0, at) with the embedding, and of [at, depth) with the final norm. None where at = 0."""
    if at == 0:
        return None, copy.deepcopy(source)
    layers = source.layers
    trunk = _copy_with(source, slice(0, at), layers=layers[:at], norm=nn.Identity())
    return trunk, _copy_with(source, slice(at, None), layers=layers[at:], embed_tokens=nn.Identity())


def _copy_with(source: Any, kept: slice, **parts: nn.Module) -> Any:
    """A copy of `source` with some submodules exchanged; what is exchanged is never copied. kept: its decoder layers."""
    own = {name: getattr(source, name) for name in parts}
    config = source.config
    source.config = copy.deepcopy(config)
    source.config.num_hidden_layers = len(range(config.num_hidden_layers)[kept])
    if getattr(config, "layer_types", None):
        source.config.layer_types = config.layer_types[kept]
    try:
        for name, part in parts.items():
            setattr(source, name, part)
        made = copy.deepcopy(source)
        for index, layer in enumerate(made.layers):
            for module in layer.modules():
                if hasattr(module, "layer_idx"):  # where a cache keeps its keys
                    module.layer_idx = index
        return made
    finally:
        source.config = config
        for name, part in own.items():
            setattr(source, name, part)


def _freeze(critic: Critic) -> None:
    """Only MLP projections of the top layers and the head learn."""
    for name, parameter in critic.named_parameters():
        parts = name.split(".")
        projection = parts[0] == "top" and any(part in ("mlp", "feed_forward", "block_sparse_moe") for part in parts)
        parameter.requires_grad = parts[0] == "head" or projection
    if not any(name.startswith("top.") for name, p in critic.named_parameters() if p.requires_grad):
        raise ModelError("no MLP projection found in the policy's decoder layers; the critic would train its head only")
