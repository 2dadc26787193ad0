"""y_t = x_t + c·y_{t+1} along every trajectory at once.

The recursion is linear, so a block of C steps is one product with the C×C matrix of powers c^(j−i), j ≥ i; only one
number per block is carried from block to block. Work is N·C multiply-adds in a few large kernels instead of N small
ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.chain import Chain

BLOCK = 64


def discounted_suffix_sum(x: Tensor, decay: Tensor, chain: Chain) -> Tensor:
    """x: [N], decay: [B] in [0, 1]; returns [N] with y_t = x_t + decay·y_{t+1}, y beyond the end 0."""
    if not chain.tokens:
        return x.clone()
    blocks = chain.pad(x, multiple=BLOCK).view(len(decay), -1, BLOCK)
    step = torch.arange(BLOCK)
    distance = step[None, :] - step[:, None]
    powers = torch.where(distance >= 0, decay[:, None, None] ** distance.clamp(min=0), 0.0).to(x.dtype)
    y = torch.bmm(blocks, powers.transpose(1, 2))

    heads = y[:, :, 0].t().contiguous()
    across = (decay**BLOCK).to(x.dtype)
    carries = torch.zeros_like(heads)
    for block in range(len(heads) - 2, -1, -1):
        carries[block] = heads[block + 1] + across * carries[block + 1]
    y += carries.t()[:, :, None] * (decay[:, None] ** (BLOCK - step)).to(x.dtype)[:, None, :]
    return chain.unpad(y.view(len(decay), -1))
