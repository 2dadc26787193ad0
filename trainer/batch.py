"""A batch of evidence: flat tensors over its action chain, and micro-batches of whole rows.

The rows of a micro-batch lie end to end in one row, without padding; `trainer.attention` keeps them apart. What their prompts
begin with in common (the system text and the tools of all, the task of a group's rollouts) lies there once, as a tree whose
leaves are the rows: n rollouts of one prompt of P tokens and A more each cost P + nA, with the same gradient. Each micro-batch
knows which cells of the flat chain its tokens are, so results are written back by index and the split changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.chain import Chain
from trainer.errors import TrainConfigError
from trainer.evidence import Evidence, Row

COMMON_TOKENS = 8
"""A shorter beginning in common is not worth a segment of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """R rows of T tokens together, n of them action tokens.

    token_ids, positions: int64[T], the packed tokens and each one's place in its own row. lengths: of the segments they lie in:
    what several rows begin with, or what a row adds to it. follows: per segment the earlier one it goes on from, −1 for
    none; the last token of a prompt always lies with its row, because it predicts the row's first action.
    actions: int64[n], where in the packed row the action tokens are, never first in their own. row: int64[n], the row
    each belongs to. cells: int64[n], its index in the batch's flat chain. ends: int64[R], where each row's last token is.
    closes: int64[R], the trajectory whose chain ends with this row, −1 where another row follows.
    """

    token_ids: Tensor
    positions: Tensor
    lengths: tuple[int, ...]
    follows: tuple[int, ...]
    actions: Tensor
    row: Tensor
    cells: Tensor
    ends: Tensor
    closes: Tensor

    @property
    def tokens(self) -> int:
        return len(self.token_ids)

    @classmethod
    def empty(cls) -> MicroBatch:
        """One context token and nothing to learn: what a process computes so that others need not wait for it."""
        nothing, one = torch.zeros(0, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
        return cls(one, one, (1,), (-1,), nothing, nothing, nothing, one, one - 1)

    @classmethod
    def packed(cls, rows: Sequence[Row], starts: Sequence[int], closes: Sequence[int]) -> MicroBatch:
        """starts: per row, the flat cell of its first action token."""
        segments: list[tuple[Row, int, int, int]] = []  # its tokens are those of the row from .. to; what it follows
        shifts = [0] * len(rows)  # from a place in the row to one in the packed row
        offset = 0
        # Rows of one beginning, how much of it is laid, and its last segment.
        branches = [(family, 0, -1) for family in reversed(_families(rows))]
        while branches:
            family, first, parent = branches.pop()
            row = rows[family[0][0]]
            common = min((common for _, common in family[1:]), default=len(row))
            if common > first:
                segments.append((row, first, common, parent))
                parent = len(segments) - 1
                offset += common - first
            if len(family) == 1:
                shifts[family[0][0]] = offset - len(row)
            else:
                branches += [(branch, common, parent) for branch in reversed(_cut(family, common))]
        shift = torch.tensor(shifts)
        counts = torch.tensor([len(row.positions) for row in rows])
        return cls(
            token_ids=torch.cat([row.token_ids[first:end] for row, first, end, _ in segments]),
            positions=torch.cat([torch.arange(first, end) for _, first, end, _ in segments]),
            lengths=tuple(end - first for _, first, end, _ in segments),
            follows=tuple(parent for *_, parent in segments),
            actions=torch.cat([row.positions for row in rows]) + torch.repeat_interleave(shift, counts),
            row=torch.repeat_interleave(counts),
            cells=torch.arange(int(counts.sum()))
            + torch.repeat_interleave(torch.tensor(starts) - (counts.cumsum(0) - counts), counts),
            ends=shift + torch.tensor([len(row) - 1 for row in rows]),
            closes=torch.tensor(closes),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """B trajectories, N action tokens. behaviour, temperature: float32[N]; version, calls: int64[N]; rewards: float32[B]."""

    evidence: tuple[Evidence, ...]
    chain: Chain
    behaviour: Tensor
    temperature: Tensor
    version: Tensor
    calls: Tensor
    rewards: Tensor
    truncated: Tensor
    micro_batches: tuple[MicroBatch, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(item.group for item in self.evidence)

    @property
    def tokens(self) -> int:
        """All tokens, context included."""
        return sum(item.tokens for item in self.evidence)

    @property
    def laid(self) -> int:
        """Tokens that are computed: what prompts begin with in common counts once."""
        return sum(micro.tokens for micro in self.micro_batches)

    def marks(self) -> dict[str, Tensor]:
        """Per signal int64[B], the call from which a trajectory went wrong, −1 for never."""
        signals = ("invalid", "failed_edit", "broken")
        return {name: torch.tensor([item.marks.get(name, -1) for item in self.evidence]) for name in signals}

    def forks(self) -> tuple[tuple[int | None, int], ...]:
        """Per trajectory: its parent's index in the batch, or None, and how many of the parent's calls came before it."""
        place = {item.trajectory_id: index for index, item in enumerate(self.evidence)}
        found: list[tuple[int | None, int]] = []
        for item in self.evidence:
            parent = place.get(item.parent or "")
            found.append((parent, 0 if parent is None else self.evidence[parent].first_call_after(item.branch_step)))
        return tuple(found)

    def reward_vectors(self) -> Tensor:
        """float32[B, D], dimensions in the order of their names. TrainConfigError where trajectories differ in theirs."""
        names = sorted(self.evidence[0].reward_vector)
        for item in self.evidence:
            if not names or sorted(item.reward_vector) != names:
                raise TrainConfigError(
                    f"trajectory {item.trajectory_id} has rewards {sorted(item.reward_vector)}, another has {names}",
                    hint="this credit needs the same non-empty reward vector on every trajectory",
                )
        return torch.tensor([[item.reward_vector[name] for name in names] for item in self.evidence])

    @classmethod
    def of(cls, evidence: Sequence[Evidence], *, micro_batch_tokens: int) -> Batch:
        """Split into micro-batches of at most `micro_batch_tokens` tokens; a longer row stands alone."""
        rows = [row for item in evidence for row in item.rows]
        closes = [index if row is item.rows[-1] else -1 for index, item in enumerate(evidence) for row in item.rows]
        starts, count = [], 0
        for row in rows:
            starts.append(count)
            count += len(row.positions)
        micro_batches = [
            MicroBatch.packed([rows[i] for i in part], [starts[i] for i in part], [closes[i] for i in part])
            for part in _parts(rows, micro_batch_tokens)
        ]
        return cls(
            evidence=tuple(evidence),
            chain=Chain(torch.tensor([item.action_tokens for item in evidence])),
            behaviour=torch.cat([row.behaviour for row in rows]),
            temperature=torch.cat([row.temperature for row in rows]),
            version=torch.cat([row.version for row in rows]),
            calls=torch.cat([row.call_index for row in rows]),
            rewards=torch.tensor([item.reward for item in evidence]),
            truncated=torch.tensor([item.truncated for item in evidence]),
            micro_batches=tuple(micro_batches),
        )


def _parts(rows: Sequence[Row], limit: int) -> list[list[int]]:
    """Row indices, packed first-fit in descending size into parts of at most `limit` tokens."""
    parts: list[list[int]] = []
    room: list[int] = []
    for unit, size in sorted(_units(rows, limit), key=lambda one: -one[1]):
        fits = next((part for part, left in enumerate(room) if left >= size), None)
        if fits is None:
            parts.append(unit)
            room.append(limit - size)
        else:
            parts[fits] += unit
            room[fits] -= size
    return parts


def _units(rows: Sequence[Row], limit: int) -> Iterator[tuple[list[int], int]]:
    """Indices of rows with a beginning in common, as many as `limit` takes, and their tokens with what is common once."""
    for family in _families(rows):
        unit, size = list[int](), 0
        for index, common in family:
            own = len(rows[index])
            if unit and size + own - common <= limit:
                size += own - common
            else:
                if unit:
                    yield unit, size
                unit, size = [], own
            unit.append(index)
        yield unit, size


Family = Sequence[tuple[int, int]]
"""Rows with a beginning in common: of each its index, and how many tokens it has in common with the one before it."""


def _families(rows: Sequence[Row]) -> list[Family]:
    """Within one, ordered by their prompts: the longer the beginning two rows have in common, the nearer they are."""
    prompts = [row.prompt[:-1].numpy() for row in rows]
    order = sorted(range(len(rows)), key=lambda index: prompts[index].tobytes())
    common = [0, *(_common(prompts[before], prompts[index]) for before, index in pairwise(order))]
    worth = [found if found >= COMMON_TOKENS else 0 for found in common]
    return sorted(_cut(list(zip(order, worth, strict=True)), 0), key=lambda family: family[0][0])


def _cut(family: Family, common: int) -> list[Family]:
    """Parts, each of rows with more than `common` tokens in common."""
    starts = [place for place, (_, found) in enumerate(family) if place == 0 or found <= common]
    return [family[start:end] for start, end in pairwise([*starts, len(family)])]


def _common(left: NDArray[np.int64], right: NDArray[np.int64]) -> int:
    size = min(len(left), len(right))
    differ = left[:size] != right[:size]
    return int(differ.argmax()) if differ.any() else size
