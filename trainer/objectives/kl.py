"""Estimates of KL(π_θ ‖ π_ref) at a sampled token (Schulman 2020), d = log π_θ − log π_ref.

k1 = d            unbiased, may be negative; as a loss its gradient says nothing about the KL, so it belongs in the
reward k2 = d² / 2       biased, its gradient is right k3 = e^{−d} + d − 1   unbiased and never negative
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

Estimator = Literal["k1", "k2", "k3"]


def kl_estimate(logprobs: Tensor, reference: Tensor, estimator: Estimator) -> Tensor:
    """float[n], nats."""
    d = logprobs - reference
    if estimator == "k1":
        return d
    if estimator == "k2":
        return d**2 / 2
    return (-d).exp() + d - 1
