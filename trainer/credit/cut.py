"""A cut at the first error: what came before it is not blamed for it.

    Â'_t = max(Â_t, 0)  for tokens of calls before the mark, where the trajectory failed;    Â'_t = Â_t  otherwise

Â is any other rule's advantage (`rule`). The mark is a recorded signal (`trainer.marks`): the first failed edit, the first
invalid call, or the step that broke a solved state. A trajectory without the mark keeps its advantages; so does one that
succeeded, since nothing in it went wrong for good.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from trainer.credit.protocol import CREDITS, CreditInput
from trainer.errors import TrainConfigError


class CutOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    rule: str = Field("sao-gae", description="The credit rule whose advantages are cut.")
    rule_options: dict[str, Any] = Field(default_factory=dict, description="Its options.")
    signal: Literal["failed_edit", "invalid", "broken"] = Field("failed_edit", description="Where the blame begins.")
    threshold: float = Field(1.0, description="A trajectory with at least this reward succeeded.")


@CREDITS.register("first-error", CutOptions)
class FirstErrorCredit:
    def __init__(self, options: CutOptions) -> None:
        if options.rule == "first-error":
            raise TrainConfigError("credit 'first-error' cannot cut itself", hint='set rule = "sao-gae"')
        self.options = options
        self.rule = CREDITS.build(options.rule, options.rule_options)
        self.needs = self.rule.needs | {"marks"} | ({"progress"} if options.signal == "broken" else set())
        self.reads_token_rewards = self.rule.reads_token_rewards
        self.gamma = self.rule.gamma

    def advantages(self, given: CreditInput) -> Tensor:
        assert given.calls is not None
        assert given.marks is not None
        advantages = self.rule.advantages(given)
        mark = given.chain.spread(given.marks[self.options.signal])
        failed = given.chain.spread(given.rewards) < self.options.threshold
        before = failed & (given.calls < mark)  # no mark is −1, so nothing lies before it
        return advantages.where(~before, advantages.clamp(min=0))
