"""One step of a learner: K critic updates, then the policy update.

    V ← snapshot;  returns ← λ = 1 targets;  K × critic update;  V ← again;  advantages ← credit(V);  policy update ← objective

Every loss is Σ_t weight_t · loss_t with weights fixed over the global batch before it is split, so gradients do not
depend on the split into micro-batches. A step whose loss or gradient is not finite is refused before it touches a
weight.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedModel

from trainer.batch import Batch, MicroBatch
from trainer.config import LearnerConfig
from trainer.credit import CREDITS, CreditInput
from trainer.diagnostics import batch_metrics, ratio_metrics
from trainer.models import action_logprobs, action_loss, choose_checkpointing, load_policy
from trainer.objectives import OBJECTIVES, ActionTokens
from trainer.objectives.kl import kl_estimate
from trainer.optimizer import adamw, apply
from trainer.progress import Progress, silent
from trainer.trace import StepTokens, position_metrics
from trainer.value_learner import ValueLearner


class Learner:
    """The policy, its critic where the credit rule needs one, and their optimizers.

    version: how many policy updates the weights have seen since the start of training. tokens: what the last step thought of
    each action token of its batch.
    """

    def __init__(self, policy: PreTrainedModel, config: LearnerConfig, *, version: int = 0) -> None:
        self.config = config
        self.policy = policy
        self.version = version
        self.tokens: StepTokens | None = None
        self.credit = CREDITS.build(config.credit, config.credit_options)
        self.objective = OBJECTIVES.build(config.objective, config.objective_options)
        self.optimizer = adamw([(policy.parameters(), config.policy_learning_rate)], config)
        self.value = ValueLearner(policy, config, gamma=self.credit.gamma) if "critic" in self.credit.needs else None
        self.reference = load_policy(config.reference) if config.reference and config.reference_kl else None

    def step(self, batch: Batch, on_progress: Progress = silent) -> dict[str, float]:
        """Update critic and policy from `batch`; returns the step's metrics. Raises DivergenceError."""
        metrics = batch_metrics(batch, self.version)
        reference = self._score(self.reference, batch, "reference", on_progress) if self.reference is not None else None
        token_rewards = self._token_rewards(batch, reference)
        values = bootstrap = None
        if self.value is not None:
            values, bootstrap, found = self.value.update(
                batch, token_rewards, self.config.value_updates, stage="critic", on_progress=on_progress
            )
            metrics |= found
        many = self.config.policy_updates > 1
        proximal = None
        if "logprobs" in self.credit.needs or (many and "proximal" in self.objective.needs):
            proximal = self._score(self.policy, batch, "proximal", on_progress)
        given = CreditInput(
            chain=batch.chain,
            token_rewards=token_rewards,
            rewards=batch.rewards,
            groups=batch.groups,
            values=values,
            bootstrap=bootstrap,
            logprobs=proximal,
            calls=batch.calls,
            reward_vectors=batch.reward_vectors() if "reward_vectors" in self.credit.needs else None,
            marks=batch.marks() if "marks" in self.credit.needs else None,
            forks=batch.forks() if "forks" in self.credit.needs else None,
        )
        advantages = self.credit.advantages(given).float()
        metrics |= {"advantage_mean": float(advantages.mean()), "advantage_std": float(advantages.std(unbiased=False))}
        metrics |= position_metrics(batch, advantages)
        for _ in range(self.config.policy_updates):
            metrics |= self._update_policy(batch, advantages, proximal, reference, on_progress, values=values)
        self.version += 1
        return metrics | {"version": float(self.version)}

    def warm_up(self, batch: Batch, updates: int, on_progress: Progress = silent) -> dict[str, float]:
        """Critic updates only (value pre-training)."""
        if self.value is None:
            return {}
        rewards = terminal_rewards(batch)
        metrics = self.value.update(batch, rewards, updates, stage="warmup", on_progress=on_progress)[2]
        self.value.warmup_done += updates
        return metrics

    def _token_rewards(self, batch: Batch, reference: Tensor | None) -> Tensor:
        rewards = terminal_rewards(batch)
        if reference is not None and self.config.reference_kl_in == "reward":
            rewards = rewards - self.config.reference_kl * kl_estimate(batch.behaviour, reference, "k1")
        return rewards

    def _update_policy(
        self,
        batch: Batch,
        advantages: Tensor,
        proximal: Tensor | None,
        reference: Tensor | None,
        tick: Progress,
        *,
        values: Tensor | None,
    ) -> dict[str, float]:
        weights = self.objective.weights(batch.chain, batch.truncated)
        beta = self.config.reference_kl if self.config.reference_kl_in == "loss" else 0.0
        logprobs, entropies = torch.zeros(batch.chain.tokens), torch.zeros(batch.chain.tokens)
        kept = torch.zeros(batch.chain.tokens, dtype=torch.bool)
        total, done = 0.0, 0
        for micro in batch.micro_batches:
            choose_checkpointing(self.policy, micro, self.config.activation_checkpoint_tokens)

            def loss_of(logprob: Tensor, entropy: Tensor, part: slice, micro: MicroBatch = micro) -> Tensor:
                at = micro.cells[part]
                before = logprob.detach() if proximal is None else proximal[at]
                result = self.objective.token_loss(
                    ActionTokens(logprob, batch.behaviour[at], advantages[at], micro.row[part], entropy, before)
                )
                kept[at], token_loss = result.kept, result.loss
                if beta and reference is not None:
                    estimate = kl_estimate(logprob, reference[at], self.config.reference_kl_estimator)
                    token_loss = token_loss + beta * estimate
                return (weights[at] * token_loss).sum()

            loss, logprob, entropy = action_loss(
                self.policy,
                micro,
                batch.temperature[micro.cells],
                loss_of,
                precision=self.config.precision,
                entropy_gradient="entropy" in self.objective.needs,
                whole="sequences" in self.objective.needs,
            )
            loss.backward()
            total += loss.item()
            logprobs[micro.cells], entropies[micro.cells] = logprob, entropy
            done += micro.tokens
            tick("policy", done, batch.tokens)
        norm = apply(self.optimizer, self.config.max_gradient_norm, total, f"policy (version {self.version})")
        self.tokens = StepTokens(advantages, (logprobs - batch.behaviour).exp(), kept, values)
        metrics = {"policy_loss": total, "policy_gradient_norm": norm}
        if reference is not None:
            metrics["reference_kl"] = float(kl_estimate(logprobs, reference, "k3").mean())
        return metrics | ratio_metrics(logprobs, batch.behaviour, kept, entropies)

    @torch.no_grad()
    def _score(self, model: PreTrainedModel, batch: Batch, stage: str, tick: Progress) -> Tensor:
        """log π of the batch's action tokens under `model`, float32[N]."""
        logprobs, done = torch.zeros(batch.chain.tokens), 0
        for micro in batch.micro_batches:
            logprobs[micro.cells], _ = action_logprobs(
                model, micro, batch.temperature[micro.cells], precision=self.config.precision
            )
            done += micro.tokens
            tick(stage, done, batch.tokens)
        return logprobs


def terminal_rewards(batch: Batch) -> Tensor:
    """float[N]: the verdict on each trajectory's last action token, also when the episode ended on an observation."""
    rewards = torch.zeros(batch.chain.tokens)
    rewards[batch.chain.last] = batch.rewards
    return rewards
