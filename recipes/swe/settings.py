"""qwen3-8b.toml, typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from agentgym.config import Config
from trainer.errors import TrainConfigError


class Shape(Config):
    """The model's, as in its config.json: enough to say what fits, without its weights."""

    hidden: int = Field(ge=1, description="hidden_size")
    layers: int = Field(ge=1, description="num_hidden_layers")
    intermediate: int = Field(ge=1, description="intermediate_size")
    heads: int = Field(ge=1, description="num_attention_heads")
    kv_heads: int = Field(ge=1, description="num_key_value_heads")
    head_dim: int = Field(ge=1, description="head_dim")
    vocabulary: int = Field(ge=1, description="vocab_size")
    tied: bool = Field(False, description="tie_word_embeddings")


class Machine(Config):
    """One node."""

    gpu_memory_gib: float = Field(gt=0, description="Of each GPU.")
    host_memory_gib: float = Field(gt=0, description="Of the node.")
    learner_gpus: int = Field(ge=1, description="GPUs the learner is sharded over.")
    server_gpus: int = Field(ge=1, description="GPUs of the policy server (tensor parallel).")


class Benchmark(Config):
    """One set of tasks."""

    name: str = Field(description="As `agentgym tasks import` knows it.")
    file: str = Field(description="Its rows: a file, or the data set's name.")


class SweSettings(Config):
    """The whole experiment."""

    model: Path = Field(description="A transformers directory.")
    output: Path
    store: str = Field(description="SQLAlchemy URL; PostgreSQL, since three programs write.")
    profile: str
    backend: Literal["docker", "kubernetes"]
    shape: Shape
    machine: Machine
    train: Benchmark
    held_out: Benchmark
    context: int = Field(ge=1024, description="Tokens an episode may have.")
    concurrency: int = Field(ge=1, description="Episodes at once.")
    learner: dict[str, Any] = Field(description="Keys of `agentgym train`, as they are.")

    @model_validator(mode="after")
    def _one_place(self) -> SweSettings:
        own = {
            "mode",
            "model",
            "server",
            "output",
            "store",
            "tasks",
            "profile",
            "backend",
            "concurrency",
            "max_sequence_tokens",
        }
        if twice := sorted(own & self.learner.keys()):
            raise TrainConfigError(
                f"[learner] sets {', '.join(twice)}, which the recipe sets itself", hint="leave them out"
            )
        return self
