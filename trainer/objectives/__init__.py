"""Advantages → loss. Each algorithm is a small file that reads like its formula; `OBJECTIVES` finds it by name."""

from trainer.objectives import ppo as ppo
from trainer.objectives import sao as sao
from trainer.objectives.protocol import OBJECTIVES, ActionTokens, Objective, TokenLoss

__all__ = ["OBJECTIVES", "ActionTokens", "Objective", "TokenLoss"]
