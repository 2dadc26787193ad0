"""Skip-observation generalised advantage estimation (Schulman et al. 2016, eq. 16, on the chain of action tokens).

    δ_t = r_t + γ V_{t+1} − V_t,    Â_t = δ_t + γλ Â_{t+1}

t runs over action tokens only: after the last token of action i comes the first token of action i+1, whatever was
observed between them, and the chain runs across the sequences of a trajectory. Beyond its end V is the bootstrap
value.
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from trainer.chain import Chain
from trainer.credit.protocol import CREDITS, CreditInput, Need
from trainer.credit.scan import discounted_suffix_sum
from trainer.errors import TrainConfigError

TILE = 3 << 18
"""Action tokens worked on at a time: whole trajectories, few enough for a processor's cache."""


def skip_observation_gae(
    token_rewards: Tensor, values: Tensor, bootstrap: Tensor, chain: Chain, *, gamma: float, lam: Tensor
) -> Tensor:
    """token_rewards, values: [N]; bootstrap, lam: [B]; returns advantages [N]."""
    advantages = torch.empty_like(values)
    for rows, cells in chain.tiles(TILE):
        part, v = Chain(chain.lengths[rows]), values[cells]
        fall = torch.empty_like(v)  # V_t − γ V_{t+1}
        torch.sub(v[:-1], v[1:], alpha=gamma, out=fall[:-1])
        fall[part.last] = v[part.last] - gamma * bootstrap[rows].to(v.dtype)
        delta = torch.sub(token_rewards[cells], fall, out=fall)
        advantages[cells] = discounted_suffix_sum(delta, gamma * lam[rows], part)
    return advantages


def discounted_returns(token_rewards: Tensor, bootstrap: Tensor, chain: Chain, *, gamma: float) -> Tensor:
    """GAE with λ = 1 plus V, that is Σ γ^k r_{t+k} + γ^n · bootstrap: the critic's targets, [N]. V itself cancels."""
    rewards = token_rewards.clone()
    rewards[chain.last] += gamma * bootstrap.to(rewards.dtype)
    return discounted_suffix_sum(rewards, torch.full_like(bootstrap, gamma, dtype=rewards.dtype), chain)


def length_adaptive_lambda(lengths: Tensor, alpha: float) -> Tensor:
    """λ = 1 − 1/(α·l), clipped to [0, 1] (VAPO, Yue et al. 2025, eq. 9; SAO with α = 1.5). lengths: [B] action
    tokens.
    """
    return (1 - 1 / (alpha * lengths.double())).clamp(0, 1)


def whitened(advantages: Tensor) -> Tensor:
    """(Â − mean)/√(var + 1e-8), with the unbiased variance, as PPO's implementations do. [N]; one alone becomes 0.

    A critic that lags behind the returns shifts all advantages of a batch: with none above 0 everything that was sampled becomes
    less likely, format and all. The mean takes that away.
    """
    centred = advantages - advantages.mean()
    return centred * (centred.square().sum() / max(len(centred) - 1, 1) + 1e-8).rsqrt()


class GAEOptions(BaseModel):
    """λ adapted to the length of each trajectory by `alpha`, or one constant `lam`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    gamma: float = Field(1.0, gt=0, le=1, description="Discount per action token.")
    alpha: float | None = Field(
        1.5, gt=0, description="λ = 1 − 1/(α·l), l the trajectory's action tokens; null: use lam."
    )
    lam: float | None = Field(None, ge=0, le=1, description="One λ for every trajectory; excludes alpha.")
    whiten: bool = Field(
        False,
        description="Advantages less their mean, over their standard deviation, both over the batch's action tokens.",
    )


@CREDITS.register("sao-gae", GAEOptions)
@CREDITS.register("vapo-gae", GAEOptions, alpha=0.05)
@CREDITS.register("gae", GAEOptions, alpha=None, lam=0.95)
class SkipObservationGAE:
    """GAE on the action chain, with the λ the options ask for."""

    needs: frozenset[Need] = frozenset({"critic"})
    reads_token_rewards = True

    def __init__(self, options: GAEOptions) -> None:
        if (options.alpha is None) == (options.lam is None):
            raise TrainConfigError(
                f"alpha = {options.alpha} and lam = {options.lam}: exactly one decides λ",
                hint="set the other one to null",
            )
        self.options = options
        self.gamma = options.gamma

    def lam(self, chain: Chain) -> Tensor:
        if self.options.lam is not None:
            return torch.full((len(chain.lengths),), self.options.lam, dtype=torch.float64)
        assert self.options.alpha is not None
        return length_adaptive_lambda(chain.lengths, self.options.alpha)

    def advantages(self, given: CreditInput) -> Tensor:
        assert given.values is not None
        assert given.bootstrap is not None
        found = skip_observation_gae(
            given.token_rewards,
            given.values,
            given.bootstrap,
            given.chain,
            gamma=self.gamma,
            lam=self.lam(given.chain),
        )
        return whitened(found) if self.options.whiten else found
