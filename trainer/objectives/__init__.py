"""Advantages → loss. Each algorithm is a small file that reads like its formula; `OBJECTIVES` finds it by name."""

from trainer.objectives import cispo as cispo
from trainer.objectives import dapo as dapo
from trainer.objectives import decoupled as decoupled
from trainer.objectives import grpo as grpo
from trainer.objectives import gspo as gspo
from trainer.objectives import ppo as ppo
from trainer.objectives import sao as sao
from trainer.objectives import sapo as sapo
from trainer.objectives import weighted as weighted
from trainer.objectives.protocol import OBJECTIVES, ActionTokens, Objective, TokenLoss

__all__ = ["OBJECTIVES", "ActionTokens", "Objective", "TokenLoss"]
