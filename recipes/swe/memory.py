"""What must fit where, in bytes, from the model's shape and the run's config.

Weights, gradients and AdamW's moments are float32 and sharded over the learner's GPUs. On each GPU come: the embedding and
head gathered for a pass, with the head's gradient; two decoder layers gathered; what recomputation keeps of the longest
micro-batch (each layer's input, float32) and one layer's activations; two chunks of logits. Estimates, not measurements: a
fifth is added for what the allocator wastes.
"""

from __future__ import annotations

from dataclasses import dataclass

from recipes.swe.settings import Shape, SweSettings
from trainer.head import CHUNK
from trainer.online.config import OnlineConfig
from trainer.value_learner import FEATURE_BYTES

WASTE = 1.2
SERVED = 0.9
"""Share of a GPU that vLLM takes (its gpu-memory-utilization)."""


@dataclass(frozen=True, slots=True)
class Need:
    """What one place must hold, part by part, and what it has; bytes."""

    where: str
    parts: dict[str, float]
    has: float

    @property
    def total(self) -> float:
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        return self.total <= self.has


def parameters(shape: Shape) -> tuple[int, int, int]:
    """(of one decoder layer, of the MLP in it, of embedding and head)."""
    attention = shape.hidden * shape.head_dim * (2 * shape.heads + 2 * shape.kv_heads)
    mlp = 3 * shape.hidden * shape.intermediate
    return attention + mlp, mlp, shape.vocabulary * shape.hidden * (1 if shape.tied else 2)


def needs(settings: SweSettings, config: OnlineConfig) -> list[Need]:
    """For a learner's GPU, a server's GPU, the host, and a checkpoint on disk (which has no bound)."""
    shape, machine = settings.shape, settings.machine
    layer, mlp, ends = parameters(shape)
    everything = shape.layers * layer + ends
    trained = _adapters(shape, config.lora_rank) if config.policy_trains == "lora" else everything
    critic_layers = config.critic_layers or shape.layers
    projections = 0 if config.critic_trains == "head" else critic_layers * mlp
    critic_trained = _adapters(shape, config.lora_rank) if config.critic_trains == "lora" else projections
    critic = everything - (ends if shape.tied else ends / 2)
    longest = max(settings.context, config.micro_batch_tokens)
    shards = machine.learner_gpus
    learner = {
        "policy: weights": 4 * everything / shards,
        "policy: gradients, AdamW": 12 * trained / shards,
        "critic: weights": 4 * critic / shards,
        "critic: gradients, AdamW": 12 * critic_trained / shards,
        "gathered: embedding, head, its gradient": 4 * ends * 1.5 + 8 * layer,
        "kept by recomputation": 4 * longest * shape.hidden * shape.layers,
        "one layer's activations": longest * (4 * 6 * shape.hidden + 2 * 4 * shape.intermediate),
        "logits": 8 * CHUNK * shape.vocabulary,
        "what the critic's frozen part said": FEATURE_BYTES,
    }
    serving = machine.server_gpus
    cache = 2 * 2 * shape.layers * shape.kv_heads * shape.head_dim * settings.context
    server = {
        "weights, bfloat16": 2 * everything / serving,
        f"keys and values of {_at_once(settings)} full contexts": cache * _at_once(settings) / serving,
    }
    host = {
        "each learner process loads the model": 4 * (everything + critic) * shards,
        "weights gathered for a publish": 4 * everything,
        "sandboxes (2 GiB each)": (2 << 30) * settings.concurrency if settings.backend == "docker" else 0.0,
    }
    disk = {
        "a checkpoint": 4 * everything + 8 * trained + 4 * critic + 8 * critic_trained,
        "two published": 8 * everything,
    }
    return [
        Need("a learner's GPU", {name: WASTE * size for name, size in learner.items()}, machine.gpu_memory_gib * 2**30),
        Need("a server's GPU", server, SERVED * machine.gpu_memory_gib * 2**30),
        Need("the host", host, machine.host_memory_gib * 2**30),
        Need("the disk", disk, float("inf")),
    ]


def table(found: list[Need]) -> str:
    lines = []
    for need in found:
        bound = "" if need.has == float("inf") else f" of {need.has / 2**30:.0f}{'' if need.fits else '  DOES NOT FIT'}"
        lines.append(f"{need.where:<44}{need.total / 2**30:8.1f} GiB{bound}")
        lines += [f"  {name:<42}{size / 2**30:8.1f}" for name, size in need.parts.items()]
    return "\n".join(lines)


def _adapters(shape: Shape, rank: int) -> int:
    """Parameters of LoRA on all seven projections of each layer."""
    wide, narrow = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    ins_and_outs = 4 * shape.hidden + 2 * wide + 2 * narrow + 3 * (shape.hidden + shape.intermediate)
    return shape.layers * rank * ins_and_outs


def _at_once(settings: SweSettings) -> int:
    """Contexts the cache should hold whole: episodes wait for tools most of their time, and start short."""
    return max(1, settings.concurrency // 8)
