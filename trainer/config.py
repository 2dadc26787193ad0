"""Everything a training run can set. Defaults are SAO's (Hou et al. 2026), ours where the paper is silent
(docs/training.md).

This module imports no torch, so that a command line can list the options quickly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from trainer.errors import TrainConfigError


class RunConfig(BaseModel):
    """What is trained, on what, for how long."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    model: Path = Field(description="The policy to train: shipped name, transformers directory or hub id.")
    store: str = Field(description="Where the trajectories are: a SQLAlchemy URL.")
    output: Path = Field(description="Directory for checkpoints and metrics.jsonl.")
    steps: int = Field(1, ge=1, description="Policy updates to take; fewer where the evidence runs out.")
    batch_trajectories: int = Field(128, ge=1, description="Trajectories per policy update.")
    min_trajectories: int = Field(1, ge=1, description="No update with fewer trajectories than this.")
    max_batch_tokens: int | None = Field(
        None, ge=2, description="A batch stops growing at this many tokens; unset: no bound."
    )
    run_id: str | None = Field(None, description="Only trajectories of this rollout run.")
    split: str | None = Field(None, description="Only trajectories on tasks of this split.")
    name: str = Field(
        "", description="Name of this run in the store (default: run_id where it rolls out, else that of `output`)."
    )
    keep_token_credit: bool = Field(
        True, description="Keep each token's advantage, ratio and value in the store, for the heat map."
    )
    model_version: int = Field(0, ge=0, description="The policy version that `model` is, for a run that starts fresh.")
    resume: bool = Field(True, description="Go on from the newest good checkpoint in `output`, if there is one.")
    keep_checkpoints: int = Field(2, ge=1, description="Older checkpoints are removed.")
    checkpoint_every: int = Field(
        1, ge=1, description="Offline: updates between checkpoints, and one at the end; what a crash costs at most."
    )
    passes: int = Field(
        1, ge=1, description="Times a trajectory may be used; more than once only for demonstrations (imitate)."
    )
    seed: int = Field(0, description="Seed of everything drawn at random.")
    threads: int | None = Field(None, ge=1, description="CPU threads of torch; unset: leave as they are.")


class EvidenceRules(BaseModel):
    """Which stored trajectories may teach."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    max_staleness: int = Field(4, ge=0, description="Policy versions the oldest token may lie behind the learner's.")
    imitate: bool = Field(
        False, description="Read trajectories as demonstrations: scripted ones too, of any distribution and age (SFT)."
    )
    min_reward: float | None = Field(None, description="Leave out trajectories with less reward; unset: none.")
    max_sequence_tokens: int = Field(
        16384, ge=2, description="A trajectory with a longer sequence is left out and counted."
    )


class LearnerConfig(BaseModel):
    """One step: critic updates, then one policy update."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    credit: str = Field("sao-gae", description="How rewards become advantages.")
    credit_options: dict[str, Any] = Field(default_factory=dict, description="Options of the credit rule (JSON).")
    objective: str = Field("sao", description="How advantages become a loss.")
    objective_options: dict[str, Any] = Field(default_factory=dict, description="Options of the objective (JSON).")
    policy_trains: Literal["full", "lora"] = Field(
        "full",
        description="What of the policy learns: every weight, or LoRA adapters (they want 10 to 100 times the rate).",
    )
    policy_learning_rate: float = Field(1e-6, gt=0, description="AdamW learning rate of the policy.")
    policy_warmup_steps: int = Field(
        0, ge=0, description="Policy updates over which its learning rate grows linearly to the full one."
    )
    policy_decay_steps: int | None = Field(
        None, ge=1, description="Policy updates over which its learning rate falls linearly to 0; unset: constant."
    )
    policy_updates: int = Field(1, ge=1, description="Policy updates per batch; SAO takes one.")
    value_learning_rate: float = Field(5e-6, gt=0, description="AdamW learning rate of the critic's projections.")
    value_head_learning_rate: float = Field(
        1e-4, gt=0, description="AdamW learning rate of the critic's new scalar head."
    )
    value_updates: int = Field(2, ge=1, description="Critic updates per policy update.")
    value_warmup_steps: int = Field(10, ge=0, description="Critic-only updates before the first policy update.")
    value_clip: float | None = Field(None, gt=0, description="PPO's clip of the value change per step; unset: none.")
    critic_trains: Literal["projections", "lora", "head"] = Field(
        "projections", description="What of the critic learns beside its head; its attention never does."
    )
    critic_layers: int | None = Field(
        None, ge=1, description="Train only the topmost decoder layers of the critic; unset: all."
    )
    lora_rank: int = Field(16, ge=1, description="Rank r of LoRA adapters, in policy and critic.")
    lora_alpha: int = Field(32, ge=1, description="Adapters are scaled by this over their rank.")
    bootstrap_truncated: bool = Field(True, description="Where a budget cut the episode, its return goes on with V.")
    reference: Path | None = Field(None, description="The reference policy of the KL term: a model directory.")
    reference_kl: float = Field(0.0, ge=0, description="Weight β of the KL to the reference policy; 0: none.")
    reference_kl_in: Literal["loss", "reward"] = Field(
        "loss",
        description="Where the KL acts: in the loss, or per token in the reward, where it enters GAE. Never both.",
    )
    reference_kl_estimator: Literal["k1", "k2", "k3"] = Field(
        "k3", description="Estimator in the loss; the reward takes k1."
    )
    step_scaling: Literal["none", "effective-sample-size"] = Field(
        "none",
        description="Learning rate of a policy update: as it is, or times the root of the batch's effective sample size.",
    )
    max_gradient_norm: float = Field(1.0, gt=0, description="Gradients are clipped to this norm.")
    weight_decay: float = Field(0.0, ge=0, description="AdamW weight decay.")
    betas: tuple[float, float] = Field((0.9, 0.999), description="AdamW betas.")
    precision: Literal["float32", "bfloat16"] = Field("float32", description="Compute type; weights stay float32.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where the learner computes; auto: a GPU if one is here."
    )
    micro_batch_tokens: int = Field(2048, ge=1, description="Tokens per micro-batch; a longer row stands alone.")
    activation_checkpoint_tokens: int = Field(
        2048, ge=1, description="Micro-batches with more tokens recompute activations instead of keeping them."
    )

    @field_validator("credit_options", "objective_options", mode="before")
    @classmethod
    def _as_on_a_command_line(cls, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _known_algorithms(self) -> LearnerConfig:
        from trainer.credit import CREDITS
        from trainer.objectives import OBJECTIVES

        credit = CREDITS.build(self.credit, self.credit_options)
        OBJECTIVES.build(self.objective, self.objective_options)
        if self.reference_kl and self.reference is None:
            raise TrainConfigError(f"reference_kl = {self.reference_kl} without a reference", hint="set reference")
        if self.reference_kl and self.reference_kl_in == "reward" and not credit.reads_token_rewards:
            raise TrainConfigError(
                f"reference_kl_in = 'reward', but credit {self.credit!r} reads verdicts only: the KL would act nowhere",
                hint="set reference_kl_in = 'loss'",
            )
        return self


class TrainConfig(LearnerConfig, EvidenceRules, RunConfig):
    """One training run over a store."""

    @property
    def recorded_as(self) -> str:
        """Under which name the store keeps what the run measures."""
        return self.name or self.output.resolve().name

    @model_validator(mode="after")
    def _imitation_has_no_ratio(self) -> TrainConfig:
        if self.imitate and self.objective != "sft":
            raise TrainConfigError(
                f"imitate = true with objective {self.objective!r}: a demonstration has no behaviour policy to correct for",
                hint='set objective = "sft" (and credit = "constant", unless the critic should be pre-trained too)',
            )
        if self.passes > 1 and not self.imitate:
            raise TrainConfigError(
                f"passes = {self.passes}: only demonstrations may be used more than once",
                hint="set passes = 1, or imitate",
            )
        return self
