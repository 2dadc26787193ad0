"""A batch of evidence: flat tensors over its action chain, and micro-batches of whole rows.

The rows of a micro-batch lie end to end in one row, without padding; `trainer.attention` keeps them apart. Each
micro-batch knows which cells of the flat chain its tokens are, so results are written back by index and the split
changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.chain import Chain
from trainer.errors import TrainConfigError
from trainer.evidence import Evidence, Row


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """R rows of T tokens together, n of them action tokens.

    token_ids, positions: int64[T], the packed tokens and each one's place in its own row. lengths: of the rows.
    actions: int64[n], where in the packed row the action tokens are, never first in their own. row: int64[n], the row
    each belongs to. cells: int64[n], its index in the batch's flat chain. ends: int64[R], where each row's last token is.
    closes: int64[R], the trajectory whose chain ends with this row, −1 where another row follows.
    """

    token_ids: Tensor
    positions: Tensor
    lengths: tuple[int, ...]
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
        return cls(one, one, (1,), nothing, nothing, nothing, one, one - 1)

    @classmethod
    def packed(cls, rows: Sequence[Row], starts: Sequence[int], closes: Sequence[int]) -> MicroBatch:
        """starts: per row, the flat cell of its first action token."""
        lengths = torch.tensor([len(row) for row in rows])
        counts = torch.tensor([len(row.positions) for row in rows])
        ends = lengths.cumsum(0)
        return cls(
            token_ids=torch.cat([row.token_ids for row in rows]),
            positions=torch.cat([torch.arange(len(row)) for row in rows]),
            lengths=tuple(lengths.tolist()),
            actions=torch.cat([row.positions for row in rows]) + torch.repeat_interleave(ends - lengths, counts),
            row=torch.repeat_interleave(counts),
            cells=torch.arange(int(counts.sum()))
            + torch.repeat_interleave(torch.tensor(starts) - (counts.cumsum(0) - counts), counts),
            ends=ends - 1,
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
            for part in _parts([len(row) for row in rows], micro_batch_tokens)
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


def _parts(lengths: list[int], limit: int) -> list[list[int]]:
    """Row indices, packed first-fit in descending length into parts of at most `limit` tokens."""
    parts: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        fits = next((part for part, left in enumerate(room) if left >= lengths[index]), None)
        if fits is None:
            parts.append([index])
            room.append(limit - lengths[index])
        else:
            parts[fits].append(index)
            room[fits] -= lengths[index]
    return parts
