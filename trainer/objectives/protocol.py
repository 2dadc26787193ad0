"""What an objective gets and gives: action tokens in, a loss per token out.

The learner minimises Σ_t weight_t · loss_t over the *global* batch. Weights are computed once, before micro-batching
and before any rejection (`aggregation.py`), so neither the split into micro-batches nor a mask can change a
denominator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from trainer.chain import Chain
from trainer.registry import Registry


@dataclass(frozen=True, slots=True, eq=False)
class ActionTokens:
    """Some n action tokens of one micro-batch, flat; all of its (whole) rows only for an objective that needs "sequences".

    logprobs: float[n], log π_θ with gradient. behaviour: float[n], log π of the version that sampled the token.
    advantages: float[n]. entropy: float[n], with gradient only where the objective asks for it.
    row: int64[n], which sequence of the micro-batch a token belongs to. proximal, reference: float[n] or None, log π
    of the policy before this update and of the reference policy.
    """

    logprobs: Tensor
    behaviour: Tensor
    advantages: Tensor
    row: Tensor
    entropy: Tensor
    proximal: Tensor | None = None
    reference: Tensor | None = None

    @property
    def log_ratio(self) -> Tensor:
        return self.logprobs - self.behaviour


@dataclass(frozen=True, slots=True, eq=False)
class TokenLoss:
    """loss: float[n] with gradient. kept: bool[n], False where the rule let no gradient of the advantage through."""

    loss: Tensor
    kept: Tensor


class Objective(Protocol):
    """Advantages → loss. `needs` names what else must be in `ActionTokens`: "proximal", "reference", "entropy" (with
    gradient), "sequences" (whole ones)."""

    needs: frozenset[str]

    def weights(self, chain: Chain, truncated: Tensor) -> Tensor:
        """float[N], the weight of each action token's loss: the algorithm's averaging, over the global batch.

        truncated: bool[B], trajectories that a budget cut.
        """
        ...

    def token_loss(self, tokens: ActionTokens) -> TokenLoss: ...


OBJECTIVES: Registry[Objective] = Registry("objective")
