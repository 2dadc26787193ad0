"""One step of a learner: K critic updates, then the policy update.

    V ← snapshot;  returns ← λ = 1 targets;  K × critic update;  V ← again;  advantages ← credit(V);  policy update ← objective

Every loss is Σ_t weight_t · loss_t with weights fixed over the global batch before it is split, so gradients do not
depend on the split into micro-batches. A step whose loss or gradient is not finite is refused before it touches a
weight.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from transformers import PreTrainedModel

from trainer.adapters import adapt, is_adapter, merged
from trainer.batch import Batch, MicroBatch
from trainer.config import LearnerConfig
from trainer.credit import CREDITS, CreditInput
from trainer.diagnostics import batch_metrics, effective_sample_size, ratio_metrics, trajectory_weights
from trainer.evidence import Row
from trainer.models import Policy, choose_checkpointing, decoder_layers, in_decoder, load_policy
from trainer.objectives import OBJECTIVES, ActionTokens
from trainer.objectives.kl import kl_estimate
from trainer.optimizer import adamw, apply, scheduled
from trainer.progress import Progress, silent
from trainer.ranks import Ranks
from trainer.trace import StepTokens, position_metrics
from trainer.value_learner import ValueLearner


class Learner:
    """The policy, its critic where the credit rule needs one, and their optimizers.

    version: how many policy updates the weights have seen since the start of training. tokens: what the last step thought of
    each action token of its batch.
    """

    def __init__(
        self, policy: PreTrainedModel, config: LearnerConfig, *, version: int = 0, ranks: Ranks | None = None
    ) -> None:
        self.config = config
        self.ranks = ranks = ranks or Ranks()
        self.version = version
        self.tokens: StepTokens | None = None
        self.credit = CREDITS.build(config.credit, config.credit_options)
        self.objective = OBJECTIVES.build(config.objective, config.objective_options)
        self.value = None
        if "critic" in self.credit.needs:  # from the policy as it is, before any adapter
            self.value = ValueLearner(policy, config, gamma=self.credit.gamma, ranks=ranks)
        self.reference = None
        if config.reference and config.reference_kl:
            self.reference = self._placed(load_policy(config.reference).requires_grad_(False))
        self.policy = policy
        self.lora = adapt(policy, config, where=in_decoder(policy)) if config.policy_trains == "lora" else None
        self._scored = self._placed(policy)
        trained = [parameter for parameter in policy.parameters() if parameter.requires_grad]
        self.optimizer = adamw([(trained, config.policy_learning_rate)], config)

    def step(self, batch: Batch, on_progress: Progress = silent) -> dict[str, float]:
        """Update critic and policy from `batch`; returns the step's metrics. Raises DivergenceError."""
        metrics = batch_metrics(batch, self.version)
        reference = self._score(self.reference, batch, "reference", on_progress) if self.reference else None
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
            proximal = self._score(self._scored, batch, "proximal", on_progress)
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

    def weights(self) -> dict[str, Tensor]:
        """The policy's weights, whole and on the CPU, adapters merged in: what is served. All ranks must ask together."""
        state = self._scored.whole_state()
        return merged(state, self.config) if self.lora else state

    def adapters(self) -> dict[str, Tensor]:
        """What of the policy's weights is an adapter's, whole and on the CPU. All ranks must ask together."""
        return self._scored.whole_state(is_adapter)

    def score(self, token_ids: Tensor, *, first: int) -> Tensor:
        """log π of the tokens from position `first` on, at temperature 1. token_ids: int64[T]; returns float32[T − first].
        All ranks must ask together."""
        positions = torch.arange(first, len(token_ids))
        nothing = torch.zeros(len(positions))
        row = Row(token_ids, positions, nothing, nothing, nothing, nothing)
        with torch.no_grad():
            return self._scored(MicroBatch.packed([row], [0], [0]), torch.ones(len(positions)))[0]

    def _placed(self, model: PreTrainedModel) -> Policy:
        module = Policy(model)
        self.ranks.place(module, decoder_layers(model))
        return module

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
        for micro in self.ranks.share(batch.micro_batches):
            choose_checkpointing(self.policy, micro, self.config.activation_checkpoint_tokens)

            def loss_of(logprob: Tensor, entropy: Tensor, part: slice, micro: MicroBatch = micro) -> Tensor:
                at, on = micro.cells[part], logprob.device
                before = logprob.detach() if proximal is None else proximal[at].to(on)
                behaviour, advantage, row = batch.behaviour[at].to(on), advantages[at].to(on), micro.row[part].to(on)
                result = self.objective.token_loss(ActionTokens(logprob, behaviour, advantage, row, entropy, before))
                kept[at], token_loss = result.kept.cpu(), result.loss
                if beta and reference is not None:
                    estimate = kl_estimate(logprob, reference[at].to(on), self.config.reference_kl_estimator)
                    token_loss = token_loss + beta * estimate
                return (weights[at].to(on) * token_loss).sum()

            loss, logprob, entropy = self._scored(
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
            done += micro.tokens * self.ranks.count
            tick("policy", min(done, batch.laid), batch.laid)
        kept = self.ranks.sum(kept.int()) > 0
        for flat in (logprobs, entropies):
            self.ranks.sum(flat)
        total = float(self.ranks.sum(torch.tensor(total)))
        size = effective_sample_size(trajectory_weights(logprobs - batch.behaviour, batch.chain))
        scale = scheduled(self.version, self.config)
        if self.config.step_scaling == "effective-sample-size":
            scale *= math.sqrt(size)
        who = f"policy (version {self.version})"
        norm = apply(self.optimizer, self.config.max_gradient_norm, total, who, scale=scale)
        self.tokens = StepTokens(advantages, (logprobs - batch.behaviour).exp(), kept, values)
        metrics = {"policy_loss": total, "policy_gradient_norm": norm, "trajectory_effective_sample_size": size}
        metrics["policy_learning_rate"] = scale * self.config.policy_learning_rate
        if reference is not None:
            metrics["reference_kl"] = float(kl_estimate(logprobs, reference, "k3").mean())
        return metrics | ratio_metrics(logprobs, batch.behaviour, kept, entropies)

    @torch.no_grad()
    def _score(self, policy: Policy, batch: Batch, stage: str, tick: Progress) -> Tensor:
        """log π of the batch's action tokens under `policy`, float32[N]."""
        logprobs, done = torch.zeros(batch.chain.tokens), 0
        for micro in self.ranks.share(batch.micro_batches):
            temperature = batch.temperature[micro.cells]
            logprobs[micro.cells], _ = policy(micro, temperature, precision=self.config.precision)
            done += micro.tokens * self.ranks.count
            tick(stage, min(done, batch.laid), batch.laid)
        return self.ranks.sum(logprobs)


def terminal_rewards(batch: Batch) -> Tensor:
    """float[N]: the verdict on each trajectory's last action token, also when the episode ended on an observation."""
    rewards = torch.zeros(batch.chain.tokens)
    rewards[batch.chain.last] = batch.rewards
    return rewards
