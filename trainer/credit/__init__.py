"""Rewards → advantages. Each rule is a small file that reads like its formula; `CREDITS` finds it by name."""

from trainer.credit import cut as cut
from trainer.credit import dapo as dapo
from trainer.credit import drpo as drpo
from trainer.credit import evpo as evpo
from trainer.credit import gae as gae
from trainer.credit import group as group
from trainer.credit import reinforce as reinforce
from trainer.credit import step_gae as step_gae
from trainer.credit import tree as tree
from trainer.credit import vpo as vpo
from trainer.credit.protocol import CREDITS, Credit, CreditInput

__all__ = ["CREDITS", "Credit", "CreditInput"]
