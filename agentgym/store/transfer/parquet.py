"""What a learner eats, as Parquet files that Hugging Face `datasets` loads by directory name.

    DIRECTORY/README.md                              the data set's card: which files are which split
    DIRECTORY/data/SPLIT-00000-of-00002.parquet      one row per sequence of a trajectory, with the trajectory's columns

Arrays have one entry per token, as in `agentgym.store.sequences`. Rows are written in groups of about `GROUP_TOKENS`
tokens and shards of `SHARD_TOKENS`, so memory does not grow with the run. Shards get their final names when their
number is known: an export that was killed leaves no file that looks whole.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.store.filter import RECORD_FIELDS
from agentgym.store.records import Trajectory
from agentgym.store.sequences import sequences
from agentgym.store.transfer.atif import printable
from agentgym.store.transfer.errors import TransferError

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_TOKENS = 1 << 20
SHARD_TOKENS = 1 << 26

_ARRAYS = {
    "token_ids": "int32",
    "action_mask": "bool_",
    "logprobs": "float32",
    "policy_version": "int32",
    "call_index": "int32",
    "temperature": "float32",
}
_NUMBERS = {"reward": "float64", "branch_step": "int32", "seed": "int64", "created_at": "float64"}
"""Columns of the record that are no text."""


def parquet_schema() -> pa.Schema:
    """The columns. Raises TransferError without pyarrow."""
    arrow = _pyarrow()
    columns = [(name, getattr(arrow, _NUMBERS.get(name, "string"))()) for name in RECORD_FIELDS]
    columns += [(name, arrow.int32()) for name in ("calls", "steps", "sequence")]
    columns += [("reward_vector", arrow.string()), ("patch", arrow.string())]
    columns += [(name, arrow.list_(getattr(arrow, kind)())) for name, kind in _ARRAYS.items()]
    return arrow.schema(columns)


@dataclass(slots=True)
class _Split:
    """The open shard of one split, and the rows that wait for their group."""

    name: str
    shards: list[Path] = field(default_factory=list)
    writer: Any = None
    written: int = 0
    waiting: list[dict[str, Any]] = field(default_factory=list)
    tokens: int = 0


class ParquetDirectory:
    """Writes trajectories; `close` gives the shards their names and writes the card."""

    def __init__(self, directory: Path) -> None:
        self._schema = parquet_schema()
        self._directory = directory
        self._splits: dict[str, _Split] = {}
        if (directory / "data").exists():
            raise TransferError(f"{directory / 'data'} exists already", hint="name another directory, or remove it")
        (directory / "data").mkdir(parents=True)

    def add(self, trajectory: Trajectory) -> int:
        """How many rows it made."""
        name = re.sub(r"\W", "_", trajectory.split) or "train"
        split = self._splits.setdefault(name, _Split(name))
        columns = {name: getattr(trajectory, name) for name in RECORD_FIELDS} | {
            "policy_kind": trajectory.policy_kind.value,
            "termination": trajectory.termination.value,
            "calls": len(trajectory.calls),
            "steps": len(trajectory.steps),
            "reward_vector": json.dumps(dict(trajectory.reward_vector)),
            "patch": printable(trajectory.patch),
        }
        derived = sequences(trajectory)
        for sequence in derived:
            arrays = {name: getattr(sequence, name) for name in _ARRAYS}
            split.waiting.append({**columns, "sequence": sequence.index, **arrays})
            split.tokens += len(sequence)
            if split.tokens >= GROUP_TOKENS:
                self._flush(split)
        return len(derived)

    def close(self) -> list[Path]:
        """Every file, under its final name."""
        for split in self._splits.values():
            self._flush(split)
            self._end_shard(split)
        names = {split.name: len(split.shards) for split in self._splits.values() if split.shards}
        files: list[Path] = []
        for split in self._splits.values():
            for number, shard in enumerate(split.shards):
                files.append(shard.with_name(f"{split.name}-{number:05d}-of-{names[split.name]:05d}.parquet"))
                shard.replace(files[-1])
        card = self._directory / "README.md"
        card.write_text(_card(sorted(names)))
        return [*files, card]

    def abandon(self) -> None:
        """After a failure: close what is open."""
        for split in self._splits.values():
            if split.writer is not None:
                split.writer.close()

    def _flush(self, split: _Split) -> None:
        if not split.waiting:
            return
        arrow = _pyarrow()
        import pyarrow.parquet as pq

        if split.writer is None:
            split.shards.append(self._directory / "data" / f".{split.name}-{len(split.shards)}.partial")
            split.writer, split.written = pq.ParquetWriter(split.shards[-1], self._schema, compression="zstd"), 0
        columns = {name: [row[name] for row in split.waiting] for name in self._schema.names}
        split.writer.write_table(arrow.table(columns, schema=self._schema))
        split.written += split.tokens
        split.waiting, split.tokens = [], 0
        if split.written >= SHARD_TOKENS:
            self._end_shard(split)

    def _end_shard(self, split: _Split) -> None:
        if split.writer is not None:
            split.writer.close()
            split.writer = None


def _card(splits: list[str]) -> str:
    lines = ["---", "configs:", "- config_name: default", "  data_files:"]
    for name in splits:
        lines += [f"  - split: {name}", f"    path: data/{name}-*.parquet"]
    return "\n".join([*lines, "---", "", "Sequences of trajectories recorded by agentgym, one row per sequence.", ""])


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise TransferError("Parquet needs pyarrow", hint="pip install 'agentgym[parquet]'") from None
    return pyarrow
