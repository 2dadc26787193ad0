"""The action chain: the action tokens of each trajectory end to end, observations skipped, across its sequences.

A batch of B trajectories with N action tokens in all is stored flat (`[N]`, trajectory after trajectory), so nothing is
padded; `Chain` knows where each trajectory begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


@dataclass(frozen=True, eq=False)
class Chain:
    """lengths: int64[B], action tokens per trajectory, each at least 1."""

    lengths: Tensor

    def __post_init__(self) -> None:
        if self.lengths.ndim != 1 or self.lengths.dtype != torch.int64:
            raise ValueError(f"lengths must be int64[B], got {self.lengths.dtype}{list(self.lengths.shape)}")
        if len(self.lengths) and int(self.lengths.min()) < 1:
            raise ValueError("a trajectory without action tokens has no place in a chain")

    @cached_property
    def tokens(self) -> int:
        return int(self.lengths.sum())

    @cached_property
    def starts(self) -> Tensor:
        """int64[B], flat index of each trajectory's first action token."""
        return self.lengths.cumsum(0) - self.lengths

    @cached_property
    def last(self) -> Tensor:
        """int64[B], flat index of each trajectory's last action token."""
        return self.lengths.cumsum(0) - 1

    @cached_property
    def trajectory(self) -> Tensor:
        """int64[N], which trajectory a token belongs to."""
        return torch.repeat_interleave(self.lengths)

    def spread(self, per_trajectory: Tensor) -> Tensor:
        """[B] → [N]: the trajectory's value at each of its tokens."""
        return per_trajectory[self.trajectory]

    def sum(self, flat: Tensor) -> Tensor:
        """[N] → [B]."""
        return torch.zeros(len(self.lengths), dtype=flat.dtype).index_add_(0, self.trajectory, flat)

    def mean(self, flat: Tensor) -> Tensor:
        """[N] → [B]: over the trajectory's own tokens."""
        return self.sum(flat) / self.lengths

    def tiles(self, tokens: int) -> Iterator[tuple[slice, slice]]:
        """Cut into runs of whole trajectories of about `tokens` tokens: (which trajectories, which flat cells)."""
        lengths, first, start = self.lengths.tolist(), 0, 0
        while first < len(lengths):
            end, stop = first + 1, start + lengths[first]
            while end < len(lengths) and stop + lengths[end] - start <= tokens:
                end, stop = end + 1, stop + lengths[end]
            yield slice(first, end), slice(start, stop)
            first, start = end, stop

    @cached_property
    def _rectangular(self) -> bool:
        return len(self.lengths) > 0 and int(self.lengths.min()) == int(self.lengths.max())

    def pad(self, flat: Tensor) -> Tensor:
        """[N] → [B, L], zeros on the right; L is the longest trajectory."""
        if self._rectangular:
            return flat.view(len(self.lengths), -1)
        return pad_sequence(list(flat.split(self.lengths.tolist())), batch_first=True)

    def unpad(self, padded: Tensor) -> Tensor:
        """[B, L] → [N], the inverse of `pad`."""
        if self._rectangular:
            return padded.reshape(-1)
        return torch.cat([row[:length] for row, length in zip(padded, self.lengths.tolist(), strict=True)])
