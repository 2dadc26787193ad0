"""A batch of evidence: flat tensors over its action chain, and micro-batches of whole rows.

Rows are sorted by length and padded on the right inside a micro-batch. Right padding needs no mask under causal
attention: no real token sees a later one. Rollouts of one prompt share a micro-batch as far as it reaches, and the prompt is
computed once (`trainer.shared_prompt`). Each micro-batch knows which cells of the flat chain its tokens are, so results are
written back by index and the split changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.chain import Chain
from trainer.errors import TrainConfigError
from trainer.evidence import Evidence, Row


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """R rows of at most T tokens, with n action tokens in all.

    token_ids: int64[R, T], zero beyond a row's end. row, position: int64[n], the cell of each action token. cells:
    int64[n], its index in the batch's flat chain. ends: int64[R], each row's last position. closes: int64[R], the
    trajectory whose chain ends with this row, −1 where another row follows. shared: so many first tokens are the same in
    all rows, and the one before the first action token is not among them.
    """

    token_ids: Tensor
    row: Tensor
    position: Tensor
    cells: Tensor
    ends: Tensor
    closes: Tensor
    shared: int = 0

    @property
    def prompt(self) -> Tensor | None:
        """int64[1, shared], None where nothing is shared."""
        return self.token_ids[:1, : self.shared] if self.shared else None

    @property
    def computed(self) -> int:
        """Tokens that a model is run on: with padding, what is shared counted once."""
        rows, length = self.token_ids.shape
        return self.shared + rows * (length - self.shared)

    @property
    def tokens(self) -> int:
        """Without padding."""
        return int(self.ends.sum()) + len(self.ends)


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
        """Split into micro-batches of at most `micro_batch_tokens` tokens to compute; a longer row stands alone."""
        rows = [row for item in evidence for row in item.rows]
        closes = [index if row is item.rows[-1] else -1 for index, item in enumerate(evidence) for row in item.rows]
        starts, count = [], 0
        for row in rows:
            starts.append(count)
            count += len(row.positions)
        micro_batches = [
            _pad([rows[i] for i in part], [starts[i] for i in part], [closes[i] for i in part], shared)
            for shared, part in _parts(rows, micro_batch_tokens)
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


def _parts(rows: Sequence[Row], limit: int) -> Iterator[tuple[int, list[int]]]:
    """(tokens shared, row indices) of each micro-batch: companions of one prompt together, all others by length."""
    families: dict[bytes, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        families[row.prompt.numpy().tobytes()].append(index)
    alone: list[int] = []
    for family in families.values():
        shared = len(rows[family[0]].prompt) - 1
        for part in _filled([len(row) for row in rows], family, shared, limit):
            if len(part) > 1 and shared > 0:
                yield shared, part
            else:
                alone += part
    for part in _filled([len(row) for row in rows], alone, 0, limit):
        yield 0, part


def _filled(lengths: list[int], indices: list[int], shared: int, limit: int) -> list[list[int]]:
    """In descending length, cut where one more row would exceed `limit` tokens to compute."""
    parts: list[list[int]] = []
    for index in sorted(indices, key=lambda i: -lengths[i]):
        if parts and shared + (len(parts[-1]) + 1) * (lengths[parts[-1][0]] - shared) <= limit:
            parts[-1].append(index)
        else:
            parts.append([index])
    return parts


def _pad(rows: list[Row], starts: list[int], closes: list[int], shared: int) -> MicroBatch:
    token_ids = torch.zeros(len(rows), max(len(row) for row in rows), dtype=torch.int64)
    for index, row in enumerate(rows):
        token_ids[index, : len(row)] = row.token_ids
    counts = torch.tensor([len(row.positions) for row in rows])
    return MicroBatch(
        token_ids=token_ids,
        row=torch.repeat_interleave(counts),
        position=torch.cat([row.positions for row in rows]),
        cells=torch.cat(
            [torch.arange(start, start + len(row.positions)) for start, row in zip(starts, rows, strict=True)]
        ),
        ends=torch.tensor([len(row) - 1 for row in rows]),
        closes=torch.tensor(closes),
        shared=shared,
    )
