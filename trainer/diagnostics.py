"""What to look at after a step. Computed once over the whole batch, from flat tensors; feeds no update.

kl is k3 = r − 1 − log r ≥ 0 (Schulman 2020), an estimate of KL(π_behaviour ‖ π_θ) on the recorded tokens.
effective_sample_size is (Σ r)² / (N Σ r²), 1 where every ratio is the same; trajectory_effective_sample_size the same
over trajectories, with the product of a trajectory's ratios, truncated. explained_variance is 1 − Var(G − V) /
Var(G), 0 where returns do not vary.
"""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from trainer.batch import Batch
from trainer.chain import Chain

TRUNCATION = 8.0
"""Largest importance weight of a trajectory."""


def explained_variance(returns: Tensor, values: Tensor) -> float:
    spread = returns.double().var(unbiased=False)
    if spread <= 1e-12:
        return 0.0
    return float(1 - (returns.double() - values.double()).var(unbiased=False) / spread)


def effective_sample_size(weights: Tensor) -> float:
    """(Σ w)² / (n Σ w²) in (0, 1]; weights: float[n], not all 0."""
    weights = weights.double()
    return float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))


def trajectory_weights(log_ratio: Tensor, chain: Chain) -> Tensor:
    """float64[B]: Π_t r_t of each trajectory, truncated at TRUNCATION. log_ratio: float[N]."""
    return chain.sum(log_ratio.double()).clamp(max=math.log(TRUNCATION)).exp()


def ratio_metrics(logprobs: Tensor, behaviour: Tensor, kept: Tensor, entropy: Tensor) -> dict[str, float]:
    """logprobs, behaviour, entropy: float[N]; kept: bool[N]."""
    log_ratio = (logprobs - behaviour).double()
    ratio = log_ratio.exp()
    tails = np.quantile(ratio.numpy(), [0.01, 0.99])  # torch's own refuses more than 16M elements
    return {
        "kept_fraction": float(kept.double().mean()),
        "ratio_mean": float(ratio.mean()),
        "ratio_min": float(ratio.min()),
        "ratio_max": float(ratio.max()),
        "ratio_p01": float(tails[0]),
        "ratio_p99": float(tails[1]),
        "effective_sample_size": effective_sample_size(ratio),
        "kl": float((ratio - 1 - log_ratio).mean()),
        "entropy": float(entropy.double().mean()),
        "logprob_gap": float(log_ratio.abs().max()),
    }


def batch_metrics(batch: Batch, version: int) -> dict[str, float]:
    """Of the evidence itself. staleness/k: the fraction of action tokens sampled k versions ago."""
    staleness = version - batch.version
    behind, counts = staleness.unique(return_counts=True)
    histogram = dict(zip(behind.tolist(), (counts / len(staleness)).tolist(), strict=True))
    return {
        "trajectories": float(len(batch.evidence)),
        "action_tokens": float(batch.chain.tokens),
        "tokens": float(batch.tokens),
        "reward_mean": float(batch.rewards.mean()),
        "reward_std": float(batch.rewards.std(unbiased=False)),
        "truncated_fraction": float(batch.truncated.double().mean()),
        "staleness_mean": float(staleness.double().mean()),
        "staleness_max": float(staleness.max()),
        "success": float((batch.rewards >= 1).double().mean()),
        **{f"staleness/{versions}": share for versions, share in histogram.items()},
    }
