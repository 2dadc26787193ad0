"""GAE over whole actions instead of tokens: one value and one advantage per model call.

    δ_i = r_i + γ V_{i+1} − V_i,    Â_i = δ_i + γλ Â_{i+1},    Â_t = Â_i for every token t of action i

V_i is the value of the prompt of call i, that is of the prefix before its first token, and r_i the sum of its token
rewards. For comparison: SAO reports that token granularity does better than both its step variants. γ discounts per
action here, l is the number of actions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.chain import Chain
from trainer.credit.gae import GAEOptions, SkipObservationGAE, skip_observation_gae
from trainer.credit.protocol import CREDITS, CreditInput


@CREDITS.register("step-gae", GAEOptions)
class StepGAE(SkipObservationGAE):
    def advantages(self, given: CreditInput) -> Tensor:
        assert given.values is not None
        assert given.bootstrap is not None
        assert given.calls is not None
        chain = given.chain
        begins = torch.ones(chain.tokens, dtype=torch.bool)
        begins[1:] = (given.calls[1:] != given.calls[:-1]) | (chain.trajectory[1:] != chain.trajectory[:-1])
        action = begins.cumsum(0) - 1
        steps = Chain(torch.bincount(chain.trajectory[begins], minlength=len(chain.lengths)))
        rewards = given.token_rewards.new_zeros(steps.tokens).index_add(0, action, given.token_rewards)
        per_action = skip_observation_gae(
            rewards, given.values[begins], given.bootstrap, steps, gamma=self.gamma, lam=self.lam(steps)
        )
        return per_action[action]
