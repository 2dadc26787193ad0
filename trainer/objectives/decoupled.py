"""Decoupled PPO (AReaL, Fu et al. 2025, eq. 5): a trust region around the policy before this update.

    J = 1/N Σ (π_prox / π_behaviour) · min(u Â, clip(u, 1 − ε_l, 1 + ε_h) Â),    u = π_θ / π_prox

π_prox is the learner's policy when the batch arrives. The behaviour weight is detached and capped.
"""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from trainer.chain import Chain
from trainer.objectives.aggregation import token_mean
from trainer.objectives.grpo import GRPOOptions
from trainer.objectives.protocol import OBJECTIVES, ActionTokens, TokenLoss
from trainer.objectives.surrogate import clipped_surrogate


class DecoupledOptions(GRPOOptions):
    cap: float = Field(5.0, gt=0, description="Largest weight π_prox / π_behaviour.")


@OBJECTIVES.register("decoupled-ppo", DecoupledOptions)
class DecoupledPPO:
    needs = frozenset({"proximal"})

    def __init__(self, options: DecoupledOptions) -> None:
        self.options = options

    def weights(self, chain: Chain, truncated: Tensor) -> Tensor:
        return token_mean(chain)

    def token_loss(self, tokens: ActionTokens) -> TokenLoss:
        assert tokens.proximal is not None
        o = self.options
        behaviour_weight = (tokens.proximal - tokens.behaviour).exp().clamp(max=o.cap)
        u = (tokens.logprobs - tokens.proximal).exp()
        clipped = clipped_surrogate(u, tokens.advantages, o.epsilon_low, o.epsilon_high)
        return TokenLoss(behaviour_weight * clipped.loss, clipped.kept)
