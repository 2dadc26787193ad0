"""EVPO (Pan et al. 2026, arXiv 2604.19485): use the critic only while it explains the returns.

EV = 1 − Var(G − V) / Var(G) over the batch;    EV > threshold: GAE with V,    else: G − mean(G)
"""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from trainer.credit.gae import GAEOptions, SkipObservationGAE, discounted_returns
from trainer.credit.protocol import CREDITS, CreditInput
from trainer.diagnostics import explained_variance


class EVPOOptions(GAEOptions):
    threshold: float = Field(0.0, lt=1, description="Explained variance above which the critic is trusted.")


@CREDITS.register("evpo", EVPOOptions)
class EVPOCredit(SkipObservationGAE):
    def __init__(self, options: EVPOOptions) -> None:
        super().__init__(options)
        self.threshold = options.threshold

    def advantages(self, given: CreditInput) -> Tensor:
        assert given.values is not None
        assert given.bootstrap is not None
        returns = discounted_returns(given.token_rewards, given.bootstrap, given.chain, gamma=self.gamma)
        if explained_variance(returns, given.values) > self.threshold:
            return super().advantages(given)
        return returns - returns.mean()
