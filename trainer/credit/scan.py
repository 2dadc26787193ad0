"""y_t = x_t + c·y_{t+1} along every trajectory at once.

The recursion is linear, so a block of C steps is one product with the C×C matrix of powers c^(j−i), j ≥ i. What a
block hands to the one before it is the same recursion again, over blocks, with c^C: it is solved the same way. So a
trajectory of length L costs L·C multiply-adds in log_C L rounds of a few large kernels, instead of L rounds of small
ones.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from trainer.chain import Chain

BLOCK = 16


def discounted_suffix_sum(x: Tensor, decay: Tensor, chain: Chain) -> Tensor:
    """x: [N], decay: [B] in [0, 1]; returns [N] with y_t = x_t + decay·y_{t+1}, y beyond the end 0."""
    return chain.unpad(_scan(chain.pad(x), decay.to(x.dtype)))


def _scan(x: Tensor, decay: Tensor) -> Tensor:
    """x: [B, L], decay: [B]."""
    length = x.shape[1]
    step = torch.arange(min(BLOCK, length))
    distance = step[None, :] - step[:, None]
    powers = torch.where(distance >= 0, decay[:, None, None] ** distance.clamp(min=0), 0.0)
    if length <= BLOCK:
        return torch.bmm(x[:, None, :], powers.transpose(1, 2))[:, 0]
    if length % BLOCK:
        x = pad(x, (0, -length % BLOCK))
    y = torch.bmm(x.view(len(x), -1, BLOCK), powers.transpose(1, 2))
    following = _scan(y[:, 1:, 0], decay**BLOCK)
    y[:, :-1].addcmul_(following[:, :, None], (decay[:, None] ** (BLOCK - step))[:, None, :])
    return y.view(len(x), -1)[:, :length]
