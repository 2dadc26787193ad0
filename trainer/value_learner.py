"""The critic's side of a step: regress V on the λ = 1 returns, K times, and hand out V before and after.

Returns come from a snapshot of V taken before the updates (it only enters where a budget cut an episode). What the
frozen part of the critic computes is computed once per batch.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedModel

from trainer.batch import Batch, MicroBatch
from trainer.config import LearnerConfig
from trainer.credit.gae import discounted_returns
from trainer.critic import Critic
from trainer.diagnostics import explained_variance
from trainer.models import choose_checkpointing
from trainer.objectives.value import value_loss
from trainer.optimizer import adamw, apply
from trainer.progress import Progress, silent
from trainer.ranks import Ranks

FEATURE_BYTES = 1 << 30
"""Memory for what the critic's frozen part computed on the current batch."""


class ValueLearner:
    """A critic and its optimizer. warmup_done: critic-only updates taken so far."""

    def __init__(self, policy: PreTrainedModel, config: LearnerConfig, *, gamma: float, ranks: Ranks) -> None:
        self.config = config
        self.gamma = gamma
        self.ranks = ranks
        self.critic = Critic(policy, config)
        ranks.place(self.critic, self.critic.layers())
        self.warmup_done = 0
        self._kept_batch: Batch | None = None
        self._kept: dict[int, Tensor] = {}
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
        old, bootstrap = self.values(batch)
        returns = discounted_returns(token_rewards, bootstrap, batch.chain, gamma=self.gamma)
        losses, norm, done = [], 0.0, 0
        for _ in range(updates):
            total = 0.0
            for index, micro in enumerate(self.ranks.share(batch.micro_batches)):
                choose_checkpointing(self.critic.top, micro, self.config.activation_checkpoint_tokens)
                values, _ = self.critic(micro, self._features(batch, index, micro), self.config.precision)
                at, on = micro.cells, values.device
                each = value_loss(values, returns[at].to(on), old[at].to(on), self.config.value_clip)
                loss = each.sum() / batch.chain.tokens
                loss.backward()
                total += loss.item()
                done += micro.tokens * self.ranks.count
                on_progress(stage, min(done, batch.laid * updates), batch.laid * updates)
            total = float(self.ranks.sum(torch.tensor(total)))
            norm = apply(self.optimizer, self.config.max_gradient_norm, total, "critic")
            losses.append(total)
        values, bootstrap = self.values(batch)
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
    def values(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """V before each action token [N], and the bootstrap [B]: V after the chain where a budget cut it, else 0."""
        values, after_row = torch.zeros(batch.chain.tokens), torch.zeros(len(batch.evidence))
        for index, micro in enumerate(self.ranks.share(batch.micro_batches)):
            before, after = self.critic(micro, self._features(batch, index, micro), self.config.precision)
            values[micro.cells] = before.cpu()
            closing = micro.closes >= 0
            after_row[micro.closes[closing]] = after.cpu()[closing]
        values, after_row = self.ranks.sum(values), self.ranks.sum(after_row)
        cut = batch.truncated & self.config.bootstrap_truncated
        return values, torch.where(cut, after_row, 0.0)

    def _features(self, batch: Batch, index: int, micro: MicroBatch) -> Tensor | None:
        """What enters the trained part, for this rank's micro-batch of that index: kept while the batch is the same and room is
        left. None where there is no frozen part: then nothing is saved by it."""
        if self.critic.trunk is None:
            return None
        if self._kept_batch is not batch:
            self._kept_batch, self._kept = batch, {}
        if index not in self._kept:
            with torch.no_grad():
                features = self.critic(micro, precision=self.config.precision, trunk_only=True)
            room = FEATURE_BYTES - sum(kept.nbytes for kept in self._kept.values())
            if features.nbytes > room:
                return features
            self._kept[index] = features
        return self._kept[index]
