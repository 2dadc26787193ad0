"""What a learner eats, as Parquet: one row per sequence of a trajectory, with the trajectory's columns.

    ParquetStream       one file, as bytes while it is written
    ParquetDirectory    files that Hugging Face `datasets` loads by directory name:
                        DIRECTORY/README.md                            the data set's card: which files are which split
                        DIRECTORY/data/SPLIT-00000-of-00002.parquet

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
from agentgym.store.transfer.names import short

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


class _Rows:
    """Rows of trajectories, written to a Parquet file in groups."""

    def __init__(self, target: Any) -> None:
        """target: a path, where a file is once there are rows; or what has `write`."""
        self._target = target
        self._schema = parquet_schema()
        self._writer: Any = None
        self._waiting: list[dict[str, Any]] = []
        self._tokens = 0
        self.written = 0
        """Tokens in the groups that are written."""

    def open(self) -> None:
        """Begin the file."""
        import pyarrow.parquet as pq

        self._writer = self._writer or pq.ParquetWriter(self._target, self._schema, compression="zstd")

    def add(self, trajectory: Trajectory) -> int:
        """How many rows it made."""
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
            self._waiting.append({**columns, "sequence": sequence.index, **arrays})
            self._tokens += len(sequence)
            if self._tokens >= GROUP_TOKENS:
                self.flush()
        return len(derived)

    def flush(self) -> None:
        if self._waiting:
            self.open()
            columns = {name: [row[name] for row in self._waiting] for name in self._schema.names}
            self._writer.write_table(_pyarrow().table(columns, schema=self._schema))
        self.written += self._tokens
        self._waiting, self._tokens = [], 0

    def close(self) -> bool:
        """Whether there is a file."""
        self.flush()
        return self.abandon()

    def abandon(self) -> bool:
        """After a failure: close what is open."""
        if self._writer is not None:
            self._writer.close()
        return self._writer is not None


class ParquetStream:
    """One Parquet file as chunks of bytes. Raises TransferError without pyarrow."""

    def __init__(self) -> None:
        self.closed = False
        self._chunks: list[bytes] = []
        self._rows = _Rows(self)
        self._rows.open()

    def add(self, trajectory: Trajectory) -> int:
        """How many rows it made."""
        return self._rows.add(trajectory)

    def finish(self) -> None:
        """No more trajectories come."""
        self._rows.close()

    def taken(self) -> bytes:
        """What has been written since the last time."""
        taken = b"".join(self._chunks)
        self._chunks.clear()
        return taken

    def write(self, data: bytes) -> int:
        """What pyarrow asks of a file."""
        self._chunks.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """What pyarrow asks of a file."""


@dataclass(slots=True)
class _Split:
    """The open shard of one split, and those that are full."""

    name: str
    open: _Rows
    shards: list[Path] = field(default_factory=list)


class ParquetDirectory:
    """Writes trajectories; `close` gives the shards their names and writes the card."""

    def __init__(self, directory: Path) -> None:
        parquet_schema()
        self._directory = directory
        self._splits: dict[str, _Split] = {}
        if (directory / "data").exists():
            raise TransferError(f"{directory / 'data'} exists already", hint="name another directory, or remove it")
        (directory / "data").mkdir(parents=True)

    def add(self, trajectory: Trajectory) -> int:
        """How many rows it made."""
        name = short(re.sub(r"\W", "_", trajectory.split), "_") or "train"
        if name not in self._splits:
            self._splits[name] = _Split(name, _Rows(self._partial(name, 0)))
        split = self._splits[name]
        made = split.open.add(trajectory)
        if split.open.written >= SHARD_TOKENS:
            self._end_shard(split)
        return made

    def close(self) -> list[Path]:
        """Every file, under its final name."""
        for split in self._splits.values():
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
            split.open.abandon()

    def _end_shard(self, split: _Split) -> None:
        if split.open.close():
            split.shards.append(self._partial(split.name, len(split.shards)))
        split.open = _Rows(self._partial(split.name, len(split.shards)))

    def _partial(self, split: str, number: int) -> Path:
        return self._directory / "data" / f".{split}-{number}.partial"


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
