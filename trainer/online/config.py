"""Everything an online run can set, beside what any training run can (`trainer.config`). Imports no torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agentgym.sandbox import BackendName
from trainer.config import TrainConfig
from trainer.errors import TrainConfigError


class CurriculumRules(BaseModel):
    """Which tasks are worth an episode now."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    band_low: float = Field(0.05, ge=0, le=1, description="Tasks solved less often than this are drawn seldom.")
    band_high: float = Field(0.95, ge=0, le=1, description="Tasks solved more often than this are drawn seldom.")
    band_window: int = Field(16, ge=2, description="Episodes of a task that its pass rate is taken over.")
    band_minimum: int = Field(4, ge=1, description="A task with fewer episodes than this counts as inside the band.")
    outside_weight: float = Field(
        0.1, ge=0, le=1, description="How often a task outside the band is drawn, against one inside."
    )
    horizon_start: int | None = Field(
        None, ge=1, description="Turns allowed at first; unset: the profile's from the start."
    )
    horizon_success: float = Field(0.5, ge=0, le=1, description="Success rate at which the horizon grows.")
    horizon_window: int = Field(64, ge=1, description="Episodes that rate is taken over, under the same horizon.")


class RolloutRules(BaseModel):
    """Who acts where, and how far ahead of the learner."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    mode: Literal["offline", "sync", "async"] = Field(
        "offline", description="offline: what the store has; sync: roll out, then update; async: both at once."
    )
    tasks: list[str] = Field(["all"], description='Task ids or directories to train on, or "all".')
    task_split: str = Field("train", description='Only tasks of this split, or "all".')
    any_status: bool = Field(False, description="Also tasks that validation has not found valid.")
    server: str | None = Field(
        None,
        description="URL of the vLLM server that samples (started from an untied copy of the model); unset: this process.",
    )
    profile: str = Field("tiny", description="Harness profile: a shipped name or a TOML file.")
    backend: BackendName = Field(
        "auto", description="Where commands run; auto: Docker if an engine answers, else local."
    )
    concurrency: int = Field(8, ge=1, description="Episodes at once.")
    group_size: int = Field(1, ge=1, description="Rollouts per prompt; group rules need at least two.")
    ahead: float = Field(
        1.0,
        ge=0,
        description="async: batches that may wait unused, beside the one being gathered, before rollouts pause.",
    )
    environment_retries: int = Field(2, ge=0, description="Fresh attempts after an environment failure.")
    worker_retries: int = Field(2, ge=0, description="Times an episode whose worker died is run again.")
    patience_s: float = Field(
        300.0, ge=0, description="How long a policy server or a database may be away, in seconds."
    )
    publish: Literal["auto", "weights", "adapter", "nccl"] = Field(
        "auto",
        description="What goes to the server: all weights (over the disk, or between GPUs over nccl), or LoRA adapters only; "
        "auto: adapters where there are some and the server takes them, else weights.",
    )
    nccl_address: str = Field(
        "127.0.0.1:29600",
        pattern=r"^[^:]+:\d+$",
        description="publish = nccl: host:port of this process, as the server's workers reach it.",
    )
    publish_tolerance: float = Field(
        1e-3, gt=0, description="Largest logprob gap after a publish, nats; a bf16 policy needs 0.05."
    )
    eval_tasks: list[str] = Field([], description="Held-out task ids to measure while training; empty: none.")
    eval_every: int = Field(0, ge=0, description="Updates between measurements on the held-out tasks; 0: none.")
    tensorboard: bool = Field(True, description="Write TensorBoard files into output/, where tensorboard is installed.")


class OnlineConfig(RolloutRules, CurriculumRules, TrainConfig):
    """One training run, offline or online."""

    @property
    def recorded_as(self) -> str:
        return self.name or (super().recorded_as if self.mode == "offline" else self.run_id or "")

    @model_validator(mode="before")
    @classmethod
    def _named_after_its_output(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("mode", "offline") != "offline" and not given.get("run_id"):
            name = str(given.get("output", "")).rstrip("/").rsplit("/", 1)[-1]
            return {**given, "run_id": f"train-{name}"}
        return given

    @model_validator(mode="after")
    def _can_learn_something(self) -> OnlineConfig:
        if self.mode == "offline":
            return self
        from trainer.credit import CREDITS

        if self.publish == "adapter" and self.policy_trains != "lora":
            raise TrainConfigError(
                f"publish = 'adapter' with policy_trains = {self.policy_trains!r}: there is no adapter to publish",
                hint='set policy_trains = "lora", or publish = "weights"',
            )
        if self.publish in ("adapter", "nccl") and self.server is None:
            raise TrainConfigError(
                f"publish = {self.publish!r} without a server: a policy in this process takes the weights themselves",
                hint='set server, or publish = "auto"',
            )
        if self.imitate:
            raise TrainConfigError(
                f"imitate = true with mode {self.mode!r}: demonstrations are not rolled out",
                hint='set mode = "offline"',
            )
        grouped = "groups" in CREDITS.build(self.credit, self.credit_options).needs
        if grouped and self.group_size < 2:
            raise TrainConfigError(
                f"credit {self.credit!r} compares rollouts of a prompt, but group_size = {self.group_size}",
                hint="set group_size = 8, or a credit with a critic (sao-gae)",
            )
        if grouped and self.batch_trajectories < self.group_size:
            raise TrainConfigError(
                f"batch_trajectories = {self.batch_trajectories} is less than one group of {self.group_size}"
            )
        if self.band_low > self.band_high:
            raise TrainConfigError(f"band_low = {self.band_low} lies above band_high = {self.band_high}")
        return self
