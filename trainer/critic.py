"""The critic: V of the prefix *before* each action token, from a copy of the policy.

The backbone is the policy's at the start of training; the scalar head starts at zero, so that the first values are 0
and the first advantages are the returns. Attention, embeddings and norms stay frozen (SAO: a full-parameter critic costs 7
points). `trains` says what learns beside the head: the MLP projections, LoRA adapters on them, or nothing (then the whole
backbone is a trunk, see below).

`layers` limits training to the topmost decoder layers. What lies below never changes then, so its output is computed
once per batch and kept: K updates and both value passes cost only the top.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from trainer.adapters import adapt
from trainer.batch import MicroBatch
from trainer.config import LearnerConfig
from trainer.errors import ModelError
from trainer.evidence import Row
from trainer.models import Precision, backbone, hidden_states


class Critic(nn.Module):
    """`values` of a micro-batch; `trunk` is the frozen lower part, `top` the trained decoder layers with the final
    norm.
    """

    def __init__(self, policy: PreTrainedModel, config: LearnerConfig) -> None:
        super().__init__()
        layers = config.critic_layers
        source: Any = backbone(policy)
        if not hasattr(source, "layers") or not hasattr(source, "norm") or not hasattr(source, "embed_tokens"):
            raise ModelError(
                f"{type(source).__name__} is not a stack of decoder layers; a critic cannot be made from it"
            )
        depth = len(source.layers)
        if layers is not None and not 1 <= layers <= depth:
            raise ModelError(f"critic layers = {layers}, but the policy has {depth} decoder layers")
        trained = 0 if config.critic_trains == "head" else layers or depth
        self.trunk, self.top = _split(source, depth - trained)
        self.head = nn.Linear(policy.config.get_text_config().hidden_size, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self._check_split(source)
        _freeze(self, config)

    def forward(
        self,
        micro: MicroBatch,
        features: Tensor | None = None,
        precision: Precision = "float32",
        *,
        trunk_only: bool = False,
    ) -> Any:
        """`features`, or `values` from features known or not: one module for whatever gathers sharded weights."""
        features = self.features(micro, precision) if features is None else features
        return features if trunk_only else self.values(micro, features, precision)

    def features(self, micro: MicroBatch, precision: Precision = "float32") -> Tensor:
        """[T, H]: what enters the trained part; constant while the critic trains, so callers may keep it."""
        with torch.no_grad():
            if self.trunk is None:
                return self.top.embed_tokens(micro.token_ids.to(self.head.weight.device))
            return hidden_states(self.trunk, micro, precision)

    def values(self, micro: MicroBatch, features: Tensor, precision: Precision = "float32") -> tuple[Tensor, Tensor]:
        """V before each action token, float32[n], and V after each row's last token, float32[R]."""
        hidden = hidden_states(self.top, micro, precision, inputs_embeds=features[None])
        at = torch.cat([micro.actions - 1, micro.ends]).to(hidden.device)
        values = self.head(hidden[at].float())[:, 0]
        return values[: len(micro.row)].clone(), values[len(micro.row) :].clone()

    def layers(self) -> list[nn.Module]:
        """The decoder layers, of trunk and top."""
        return [layer for part in (self.trunk, self.top) for layer in getattr(part, "layers", ())]

    @torch.no_grad()
    def _check_split(self, source: nn.Module) -> None:
        """The two parts in a row must be the whole: an architecture that does more between layers is refused."""
        one = torch.ones(1, dtype=torch.int64)
        micro = MicroBatch.packed([Row(torch.arange(1, 9), one, one, one, one, one)], [0], [0])
        split = hidden_states(self.top, micro, "float32", inputs_embeds=self.features(micro)[None])
        if not torch.allclose(split, hidden_states(source, micro, "float32"), atol=1e-4):
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
        return copy.deepcopy(source)
    finally:
        source.config = config
        for name, part in own.items():
            setattr(source, name, part)


def _freeze(critic: Critic, config: LearnerConfig) -> None:
    """Only the head learns, and in the top layers MLP projections or their adapters."""
    for name, parameter in critic.named_parameters():
        projection = config.critic_trains == "projections" and name.startswith("top.") and _in_mlp(name)
        parameter.requires_grad = name.startswith("head.") or projection
    if config.critic_trains == "lora":
        adapt(critic.top, config, where=_in_mlp)
    if config.critic_trains != "head" and not any(p.requires_grad for p in critic.top.parameters()):
        raise ModelError("no MLP projection found in the policy's decoder layers; the critic would train its head only")


def _in_mlp(name: str) -> bool:
    return any(part in ("mlp", "feed_forward", "block_sparse_moe") for part in name.split("."))
