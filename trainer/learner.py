"""One step of a learner: K critic updates, then one policy update.

    V ← snapshot;  returns ← λ = 1 targets;  K × critic update;  V ← again;  advantages ← credit(V);  policy update ←
    objective

Every loss is Σ_t weight_t · loss_t with weights fixed over the global batch before it is split, so gradients do not
depend on the split into micro-batches. A step whose loss or gradient is not finite is refused before it touches a
weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from trainer.batch import Batch, MicroBatch
from trainer.config import LearnerConfig
from trainer.credit import CREDITS, CreditInput
from trainer.credit.gae import discounted_returns
from trainer.critic import Critic
from trainer.diagnostics import batch_metrics, explained_variance, ratio_metrics
from trainer.errors import DivergenceError
from trainer.models import action_logprobs, checkpoint_activations
from trainer.objectives import OBJECTIVES, ActionTokens
from trainer.objectives.value import value_loss

Progress = Callable[[str, int, int], None]
"""Called with (stage, tokens done, tokens of the stage)."""


class Learner:
    """The policy, its critic where the credit rule needs one, and their optimizers. `version` counts policy updates."""

    def __init__(self, policy: PreTrainedModel, config: LearnerConfig, *, version: int = 0) -> None:
        self.config = config
        self.policy = policy
        self.version = version
        self.warmup_done = 0
        self.credit = CREDITS.build(config.credit, config.credit_options)
        self.objective = OBJECTIVES.build(config.objective, config.objective_options)
        self.policy_optimizer = self._adamw([{"params": list(policy.parameters()), "lr": config.policy_learning_rate}])
        self.critic: Critic | None = None
        self.value_optimizer: torch.optim.AdamW | None = None
        if self.credit.needs_critic:
            self.critic = Critic(policy, layers=config.critic_layers)
            head = list(self.critic.head.parameters())
            top = [parameter for parameter in self.critic.top.parameters() if parameter.requires_grad]
            self.value_optimizer = self._adamw(
                [
                    {"params": top, "lr": config.value_learning_rate},
                    {"params": head, "lr": config.value_head_learning_rate},
                ]
            )

    def step(self, batch: Batch, on_progress: Progress | None = None) -> dict[str, float]:
        """Update critic and policy once from `batch`; returns the step's metrics. Raises DivergenceError."""
        tick = on_progress or _silent
        metrics = batch_metrics(batch, self.version)
        values = bootstrap = None
        if self.critic is not None:
            features = self._features(batch)
            values, bootstrap, found = self._update_critic(batch, features, self.config.value_updates, tick)
            metrics |= found
        advantages = self.credit.advantages(
            CreditInput(batch.chain, terminal_rewards(batch), batch.rewards, batch.groups, values, bootstrap)
        )
        metrics |= {"advantage_mean": float(advantages.mean()), "advantage_std": float(advantages.std(unbiased=False))}
        metrics |= self._update_policy(batch, advantages.float(), tick)
        self.version += 1
        return metrics | {"version": float(self.version)}

    def warm_up(self, batch: Batch, updates: int, on_progress: Progress | None = None) -> dict[str, float]:
        """Critic updates only (value pre-training)."""
        if self.critic is None:
            return {}
        _, _, metrics = self._update_critic(batch, self._features(batch), updates, on_progress or _silent)
        self.warmup_done += updates
        return metrics

    def _features(self, batch: Batch) -> list[Tensor]:
        assert self.critic is not None
        return [self.critic.features(micro, self.config.precision) for micro in batch.micro_batches]

    @torch.no_grad()
    def _values(self, batch: Batch, features: list[Tensor]) -> tuple[Tensor, Tensor]:
        """V before each action token [N], and the bootstrap [B]: V after the chain's end where a budget cut it, else
        0.
        """
        assert self.critic is not None
        values, bootstrap = torch.zeros(batch.chain.tokens), torch.zeros(len(batch.evidence))
        for micro, entering in zip(batch.micro_batches, features, strict=True):
            before, after = self.critic.values(micro, entering, self.config.precision)
            values[micro.cells] = before
            closing = micro.closes >= 0
            bootstrap[micro.closes[closing]] = after[closing]
        cut = batch.truncated if self.config.bootstrap_truncated else torch.zeros_like(batch.truncated)
        return values, torch.where(cut, bootstrap, 0.0)

    def _update_critic(
        self, batch: Batch, features: list[Tensor], updates: int, tick: Progress
    ) -> tuple[Tensor, Tensor, dict[str, float]]:
        """`updates` critic updates towards the λ = 1 returns of the values before them; the values after them."""
        assert self.critic is not None
        assert self.value_optimizer is not None
        values, bootstrap = self._values(batch, features)
        old, returns = (
            values,
            discounted_returns(terminal_rewards(batch), bootstrap, batch.chain, gamma=self.credit.gamma),
        )
        total, done = batch.tokens * updates, 0
        losses, norm = [], 0.0
        for _ in range(updates):
            self.value_optimizer.zero_grad(set_to_none=True)
            value = 0.0
            for micro, entering in zip(batch.micro_batches, features, strict=True):
                self._choose_checkpointing(self.critic.top, micro)
                predicted, _ = self.critic.values(micro, entering, self.config.precision)
                at = micro.cells
                loss = value_loss(predicted, returns[at], old[at], self.config.value_clip).sum() / batch.chain.tokens
                loss.backward()
                value += loss.item()
                done += int(micro.ends.sum()) + len(micro.ends)
                tick("critic", done, total)
            norm = self._apply(self.value_optimizer, self.critic.trained(), value, "critic")
            losses.append(value)
        values, bootstrap = self._values(batch, features)
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

    def _update_policy(self, batch: Batch, advantages: Tensor, tick: Progress) -> dict[str, float]:
        weights = self.objective.weights(batch.chain)
        count = batch.chain.tokens
        logprobs, entropies, kept = torch.zeros(count), torch.zeros(count), torch.zeros(count, dtype=torch.bool)
        self.policy_optimizer.zero_grad(set_to_none=True)
        value, done = 0.0, 0
        for micro in batch.micro_batches:
            self._choose_checkpointing(self.policy, micro)
            at = micro.cells
            logprob, entropy = action_logprobs(
                self.policy,
                micro,
                batch.temperature[at],
                precision=self.config.precision,
                entropy_gradient="entropy" in self.objective.needs,
            )
            tokens = ActionTokens(logprob, batch.behaviour[at], advantages[at], micro.row, entropy)
            result = self.objective.token_loss(tokens)
            loss = (weights[at] * result.loss).sum()
            loss.backward()
            value += loss.item()
            logprobs[at], entropies[at], kept[at] = logprob.detach(), entropy.detach(), result.kept
            done += int(micro.ends.sum()) + len(micro.ends)
            tick("policy", done, batch.tokens)
        norm = self._apply(self.policy_optimizer, self.policy.parameters(), value, "policy")
        return {"policy_loss": value, "policy_gradient_norm": norm} | ratio_metrics(
            logprobs, batch.behaviour, kept, entropies
        )

    def _choose_checkpointing(self, module: nn.Module, micro: MicroBatch) -> None:
        checkpoint_activations(module, micro.token_ids.numel() > self.config.activation_checkpoint_tokens)

    def _apply(
        self, optimizer: torch.optim.Optimizer, parameters: Iterable[nn.Parameter], loss: float, who: str
    ) -> float:
        """Clip and step; returns the gradient norm before clipping."""
        norm = float(nn.utils.clip_grad_norm_(parameters, self.config.max_gradient_norm))
        if not (torch.isfinite(torch.tensor([loss, norm])).all()):
            optimizer.zero_grad(set_to_none=True)
            raise DivergenceError(
                f"{who} loss {loss} with gradient norm {norm} at version {self.version}; no step taken",
                hint="resume with a smaller learning rate; ratio_max in metrics.jsonl shows how far the policy drifted",
            )
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return norm

    def _adamw(self, groups: list[dict]) -> torch.optim.AdamW:
        return torch.optim.AdamW(groups, betas=self.config.betas, weight_decay=self.config.weight_decay, fused=True)


def terminal_rewards(batch: Batch) -> Tensor:
    """float[N]: the verdict on each trajectory's last action token, also when the episode ended on an observation."""
    rewards = torch.zeros(batch.chain.tokens)
    rewards[batch.chain.last] = batch.rewards
    return rewards


def _silent(stage: str, done: int, total: int) -> None:
    pass
