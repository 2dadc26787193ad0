"""How token losses are averaged, as one weight per action token of the global batch.

Weights depend on lengths only: a token that a mask rejects keeps its share of the denominator.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.chain import Chain


def token_mean(chain: Chain) -> Tensor:
    """1/N: every token counts the same (DAPO, SAO)."""
    return torch.full((chain.tokens,), 1 / chain.tokens)


def trajectory_mean(chain: Chain) -> Tensor:
    """1/(B·l_i): every trajectory counts the same, its tokens share it (GRPO)."""
    return chain.spread(1 / (len(chain.lengths) * chain.lengths.float()))


def constant(chain: Chain, length: int) -> Tensor:
    """1/(B·L_max): a constant denominator, so that length changes no token's weight (Dr. GRPO)."""
    return torch.full((chain.tokens,), 1 / (len(chain.lengths) * length))
