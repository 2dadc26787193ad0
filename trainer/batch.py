"""A batch of evidence: flat tensors over its action chain, and micro-batches of whole rows.

The rows of a micro-batch lie end to end in one row, without padding; `trainer.attention` keeps them apart. Rollouts of one
prompt differ only in what was sampled, so their prompt lies there once and each of them behind it: n rows of P + A tokens cost
P + nA, with the same gradient. Each micro-batch knows which cells of the flat chain its tokens are, so results are written
back by index and the split changes nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.chain import Chain
from trainer.errors import TrainConfigError
from trainer.evidence import Evidence, Row


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """R rows of T tokens together, n of them action tokens.

    token_ids, positions: int64[T], the packed tokens and each one's place in its own row. lengths: of the segments they lie in:
    a row, the prompt that several rows share, or what such a row adds to it. follows: per segment the one it goes on from,
    −1 for none; the last token of a shared prompt lies with each row, because it predicts the row's first action.
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
        companions = Counter(_key(row) for row in rows)
        prompts: dict[bytes, int] = {}
        segments: list[tuple[Row, int, int, int]] = []  # its tokens are those of the row from .. to; what it follows
        shifts: list[int] = []  # from a place in the row to one in the packed row
        offset = 0
        for row in rows:
            key, shared = _key(row), 0
            if companions[key] > 1:
                shared = len(row.prompt) - 1
                if key not in prompts:
                    prompts[key] = len(segments)
                    segments.append((row, 0, shared, -1))
                    offset += shared
            segments.append((row, shared, len(row), prompts.get(key, -1)))
            shifts.append(offset - shared)
            offset += len(row) - shared
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
    """Indices of rows that share their prompt, as many as `limit` takes, and their tokens with that prompt once."""
    families: dict[bytes, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        families[_key(row)].append(index)
    for family in families.values():
        shared = len(rows[family[0]].prompt) - 1
        unit, size = [], shared
        for index in sorted(family, key=lambda i: -len(rows[i])):
            own = len(rows[index]) - shared
            if unit and size + own > limit:
                yield unit, size
                unit, size = [], shared
            unit.append(index)
            size += own
        yield unit, size


def _key(row: Row) -> bytes:
    """Equal for rows with the same prompt; a prompt of one token has nothing to share and belongs to its row alone."""
    return row.prompt.numpy().tobytes() if len(row.prompt) > 1 else str(id(row)).encode()
