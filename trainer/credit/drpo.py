"""DRPO (Li et al. 2025, arXiv 2510.04474): length decides among correct answers only, never between right and wrong.

    J = Σ_pos w_i ( s_i − τ log Σ_neg e^{s_j/τ} ) / Σ_pos w_i,    s_i = 1/l_i Σ_t log π_θ,    w_i = exp((1 − l_i/L_max)/λ)

over the rollouts of one prompt; positive: reward above `threshold`. J is linear in the positives and a log-sum-exp of
the negatives, so its gradient is Σ c_i ∇s_i with c_i = w_i/Σw for a positive and −softmax(s/τ)_j for a negative:
those are the advantages here, and the objective `drpo` is the mean log probability they weigh. A correct answer never
gets a negative sign.
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from trainer.credit.group import group_members
from trainer.credit.protocol import CREDITS, CreditInput, Need


def drpo_coefficients(
    scores: Tensor, positive: Tensor, lengths: Tensor, *, tau: float, lam: float, max_tokens: int
) -> Tensor:
    """c: float[G] for one prompt; zero throughout where all answers are right or all are wrong."""
    coefficients = torch.zeros_like(scores)
    if positive.all() or not positive.any():
        return coefficients
    coefficients[positive] = torch.softmax((1 - lengths[positive].to(scores.dtype) / max_tokens) / lam, dim=0)
    coefficients[~positive] = -torch.softmax(scores[~positive] / tau, dim=0)
    return coefficients


class DRPOOptions(BaseModel):
    """The paper's λ trades accuracy for brevity; τ is not stated for agents: both are ours to set."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    threshold: float = Field(0.5, description="A trajectory is correct if its reward is above this.")
    tau: float = Field(1.0, gt=0, description="Temperature τ of the log-sum-exp over wrong answers.")
    lam: float = Field(1.0, gt=0, description="λ of the length weights; large: length does not matter.")
    max_tokens: int = Field(8192, ge=1, description="L_max: the action-token budget of an episode.")


@CREDITS.register("drpo", DRPOOptions)
class DRPOCredit:
    needs: frozenset[Need] = frozenset({"groups", "mixed_groups", "logprobs"})
    reads_token_rewards = False
    gamma = 1.0

    def __init__(self, options: DRPOOptions) -> None:
        self.options = options

    def advantages(self, given: CreditInput) -> Tensor:
        assert given.logprobs is not None
        o = self.options
        scores, positive = given.chain.mean(given.logprobs), given.rewards > o.threshold
        groups = group_members(given.groups)
        coefficients = torch.zeros_like(scores)
        for members in groups.values():
            coefficients[members] = drpo_coefficients(
                scores[members],
                positive[members],
                given.chain.lengths[members],
                tau=o.tau,
                lam=o.lam,
                max_tokens=o.max_tokens,
            )
        # The objective averages over trajectories, the formula over prompts.
        return given.chain.spread(coefficients * len(coefficients) / len(groups))
