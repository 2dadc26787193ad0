"""Rows from files: JSON (object or array), JSON lines, YAML, Parquet, or the name of a data set.

A row that cannot be read does not hide the others: it is yielded as the reason, with its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentgym.errors import InputError

_LFS = "version https://git-lfs.github.com/spec/"


class UnreadableRows(InputError):
    """The file as a whole cannot be read as rows."""


def read_rows(source: str | Path) -> Iterator[tuple[str, Any]]:
    """(place, row) or (place, UnreadableRows) for every row; raises UnreadableRows where the file itself is unusable."""
    path = Path(source)
    if not path.exists():
        yield from _data_set(str(source))
        return
    if path.suffix == ".parquet":
        yield from _parquet(path)
        return
    text = path.read_text(encoding="utf-8-sig")
    if text.startswith(_LFS):
        raise UnreadableRows(
            f"{path} is a Git LFS pointer, not the data", hint="git lfs pull, or download the file itself"
        )
    if path.suffix in (".yaml", ".yml"):
        yield from _yaml(path, text)
    elif path.suffix == ".jsonl":
        yield from _lines(path, text)
    else:
        yield from _document(path, text)


def _lines(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    # Not splitlines(): rows may hold U+2028 and other characters that it takes for the end of a line.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            place = f"{path.name}:{number}"
            try:
                yield place, json.loads(line)
            except json.JSONDecodeError as error:
                yield place, UnreadableRows(f"not JSON: {error}")


def _document(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        if "\n{" in text.strip():
            yield from _lines(path, text)
            return
        raise UnreadableRows(f"{path} is not JSON: {error}") from error
    rows = document if isinstance(document, list) else [document]
    yield from ((f"{path.name}[{index}]", row) for index, row in enumerate(rows))


def _yaml(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise UnreadableRows(f"{path}: reading YAML needs PyYAML", hint="pip install pyyaml") from error
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UnreadableRows(f"{path} is not YAML: {error}") from error
    rows = document if isinstance(document, list) else [document]
    yield from ((f"{path.name}[{index}]", row) for index, row in enumerate(rows))


def _parquet(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise UnreadableRows(f"{path}: reading Parquet needs pyarrow", hint="pip install 'agentgym[import]'") from error
    index = 0
    for batch in parquet.ParquetFile(path).iter_batches(batch_size=256):
        for row in batch.to_pylist():
            yield f"{path.name}[{index}]", row
            index += 1


def _data_set(name: str) -> Iterator[tuple[str, Any]]:
    """`org/name` or `org/name:split` through the `datasets` package."""
    if "/" not in name or name.endswith((".json", ".jsonl", ".parquet", ".yaml")):
        raise UnreadableRows(f"{name}: no such file")
    try:
        from datasets import load_dataset  # type: ignore[import-not-found]
    except ModuleNotFoundError as error:
        raise UnreadableRows(
            f"{name}: no such file, and a data set needs `datasets`", hint="pip install datasets"
        ) from error
    title, _, split = name.partition(":")
    for index, row in enumerate(load_dataset(title, split=split or "test")):
        yield f"{name}[{index}]", dict(row)
