"""learn.toml, typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from agentgym.config import Config


class Sft(Config):
    """The cold start."""

    batch: int = Field(ge=1, description="Gold episodes per update.")
    steps_per_round: int = Field(ge=1, description="Updates between two probes.")
    rounds: int = Field(ge=1, description="At most this many.")
    learning_rate: float = Field(gt=0, description="AdamW's.")
    probe_tasks: int = Field(ge=1, description="Held-out instances a probe tries once each.")
    enough: float = Field(gt=0, lt=1, description="Success in a probe that ends the cold start.")


class Rl(Config):
    """What every arm has in common."""

    steps: int = Field(ge=1, description="Updates.")
    batch: int = Field(ge=1, description="Trajectories per update.")
    group: int = Field(ge=1, description="Rollouts per prompt.")
    learning_rate: float = Field(gt=0, description="Of the policy.")
    value_learning_rate: float = Field(gt=0, description="Of the critic's projections.")
    value_head_learning_rate: float = Field(gt=0, description="Of the critic's head.")
    value_updates: int = Field(ge=1, description="Critic updates per policy update.")
    critic_layers: int = Field(ge=1, description="Topmost layers of the critic that are trained.")
    ahead: float = Field(ge=0, description="Batches that may wait unused.")
    max_staleness: int = Field(ge=0, description="Versions the oldest token may lie behind.")


class Arm(Config):
    """One algorithm."""

    credit: str
    objective: str
    credit_options: dict[str, Any] = Field({}, description="Options of the credit.")
    objective_options: dict[str, Any] = Field({}, description="Options of the objective.")
    group: int | None = Field(None, ge=1, description="Instead of the common one.")


class LearnSettings(Config):
    """The whole experiment."""

    seed: int
    model: str
    output: Path
    backend: str
    show: str = Field(description="What of the code the prompt shows (`agentgym tasks mutate --show`).")
    spellings: int = Field(ge=1, description="Of each bug that RL trains on, the held-out instances among them.")
    operators: list[str] = Field(description="Kinds of mistakes (agentgym/tasks/mutation/operators.py).")
    max_lines: int = Field(ge=2, description="Bugs only in functions of at most so many lines.")
    precision: Literal["float32", "bfloat16"] = Field(description="The learner's compute type; weights stay float32.")
    rl_modules: int = Field(ge=1, description="Snippets that RL may train on: those with the most places for a bug.")
    families: int = Field(
        ge=0, description="Families that RL trains on, of those that can be; 0: all, none is tried out."
    )
    tries: int = Field(ge=1, description="Episodes that say how often the start solves a family, to choose among them.")
    concurrency: int = Field(ge=1)
    evaluations: int = Field(ge=1, description="Episodes per held-out task.")
    sets: dict[str, int]
    sft: Sft
    rl: Rl
    arms: dict[str, Arm]

    @property
    def store(self) -> Path:
        return self.output / "store.db"
