"""The critic's side of a step: regress V on the λ = 1 returns, K times, and hand out V before and after.

Returns come from a snapshot of V taken before the updates (it only enters where a budget cut an episode). What the
frozen part of the critic computes is computed once per batch.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedModel

from trainer.batch import Batch
from trainer.config import LearnerConfig
from trainer.credit.gae import discounted_returns
from trainer.critic import Critic
from trainer.diagnostics import explained_variance
from trainer.models import choose_checkpointing
from trainer.objectives.value import value_loss
from trainer.optimizer import adamw, apply
from trainer.progress import Progress, silent


class ValueLearner:
    """A critic and its optimizer. warmup_done: critic-only updates taken so far."""

    def __init__(self, policy: PreTrainedModel, config: LearnerConfig, *, gamma: float) -> None:
        self.config = config
        self.gamma = gamma
        self.critic = Critic(policy, layers=config.critic_layers)
        self.warmup_done = 0
        projections = [parameter for parameter in self.critic.top.parameters() if parameter.requires_grad]
        self.optimizer = adamw(
            [
                (projections, config.value_learning_rate),
                (self.critic.head.parameters(), config.value_head_learning_rate),
            ],
            config,
        )

    def update(
        self, batch: Batch, token_rewards: Tensor, updates: int, *, stage: str, on_progress: Progress = silent
    ) -> tuple[Tensor, Tensor, dict[str, float]]:
        """K updates; returns the values [N] and bootstraps [B] after them, and metrics. Raises DivergenceError."""
        features = [self.critic.features(micro, self.config.precision) for micro in batch.micro_batches]
        old, bootstrap = self.values(batch, features)
        returns = discounted_returns(token_rewards, bootstrap, batch.chain, gamma=self.gamma)
        losses, norm, done = [], 0.0, 0
        for _ in range(updates):
            total = 0.0
            for micro, entering in zip(batch.micro_batches, features, strict=True):
                choose_checkpointing(self.critic.top, micro, self.config.activation_checkpoint_tokens)
                values, _ = self.critic.values(micro, entering, self.config.precision)
                at = micro.cells
                loss = value_loss(values, returns[at], old[at], self.config.value_clip).sum() / batch.chain.tokens
                loss.backward()
                total += loss.item()
                done += micro.tokens
                on_progress(stage, done, batch.tokens * updates)
            norm = apply(self.optimizer, self.config.max_gradient_norm, total, "critic")
            losses.append(total)
        values, bootstrap = self.values(batch, features)
        return (
            values,
            bootstrap,
            {
                "value_updates": float(updates),
                "value_loss": losses[-1],
                "value_loss_first": losses[0],
                "value_gradient_norm": norm,
                "value_mean": float(values.mean()),
                "return_mean": float(returns.mean()),
                "explained_variance_before": explained_variance(returns, old),
                "explained_variance": explained_variance(returns, values),
            },
        )

    @torch.no_grad()
    def values(self, batch: Batch, features: list[Tensor]) -> tuple[Tensor, Tensor]:
        """V before each action token [N], and the bootstrap [B]: V after the chain where a budget cut it, else 0."""
        values, after_row = torch.zeros(batch.chain.tokens), torch.zeros(len(batch.evidence))
        for micro, entering in zip(batch.micro_batches, features, strict=True):
            before, after = self.critic.values(micro, entering, self.config.precision)
            values[micro.cells] = before
            closing = micro.closes >= 0
            after_row[micro.closes[closing]] = after[closing]
        cut = batch.truncated & self.config.bootstrap_truncated
        return values, torch.where(cut, after_row, 0.0)
