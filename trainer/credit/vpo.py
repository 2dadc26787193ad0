"""VPO (Bahlous-Boldi et al. 2026, arXiv 2605.22817): reward a *set* of answers for serving many preferences.

    R(S) = E_w[ max_{y∈S} wᵀ r(y) ],    w ~ Dirichlet(α),    Â(S) = (R(S) − mean) / (std + 1e-6) over the prompt's sets

r is the reward vector of a trajectory. The rollouts of one prompt, in their order, are cut into sets of `set_size`;
every member gets its set's advantage. All sets of a prompt share the same draws of w, or their difference would be
noise.
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from trainer.credit.group import group_members, grpo
from trainer.credit.protocol import CREDITS, CreditInput, Need
from trainer.errors import TrainConfigError


def set_reward(vectors: Tensor, weights: Tensor) -> Tensor:
    """E_w[max_y wᵀr]. vectors: [K, D], the set; weights: [W, D]; returns a scalar."""
    return (vectors @ weights.T).max(dim=0).values.mean()


class VPOOptions(BaseModel):
    """α and the number of draws are not stated in the paper: uniform over preferences, and enough of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    set_size: int = Field(2, ge=1, description="Answers per set.")
    alpha: float = Field(1.0, gt=0, description="Concentration of the Dirichlet; 1 is uniform over preferences.")
    draws: int = Field(256, ge=1, description="Preferences drawn per prompt.")
    seed: int = Field(0, description="Seed of the draws.")


@CREDITS.register("vpo", VPOOptions)
class VPOCredit:
    needs: frozenset[Need] = frozenset({"groups", "reward_vectors"})
    reads_token_rewards = False
    gamma = 1.0

    def __init__(self, options: VPOOptions) -> None:
        self.options = options

    def advantages(self, given: CreditInput) -> Tensor:
        assert given.reward_vectors is not None
        size, dimensions = self.options.set_size, given.reward_vectors.shape[1]
        advantages = torch.zeros_like(given.rewards)
        for name, members in group_members(given.groups).items():
            if len(members) % size or len(members) < 2 * size:
                raise TrainConfigError(
                    f"group {name!r} has {len(members)} rollouts: not two or more whole sets of {size}",
                    hint="roll out a multiple of set_size per prompt, at least twice",
                )
            weights = self._preferences(dimensions)
            sets = torch.tensor(members).view(-1, size)
            rewards = torch.stack([set_reward(given.reward_vectors[one], weights) for one in sets])
            advantages[sets.flatten()] = grpo(rewards).repeat_interleave(size)
        return given.chain.spread(advantages)

    def _preferences(self, dimensions: int) -> Tensor:
        """float[W, D] on the simplex, the same for every prompt; the global generator stays untouched."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.options.seed)
            dirichlet = torch.distributions.Dirichlet(torch.full((dimensions,), self.options.alpha))
            return dirichlet.sample(torch.Size([self.options.draws]))
