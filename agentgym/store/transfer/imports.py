"""Take trajectories from files: our own documents, and ATIF.

A path is a file with one JSON document, a `.jsonl` file with one per line, or a directory, whose `*.json` and `*.jsonl`
are read. Each document is judged by itself: what is no trajectory, or breaks the data contract, is reported with its
place, and the others are stored. Importing a file twice adds nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agentgym.store.errors import StoreError, StoreUnusableError
from agentgym.store.records import Trajectory
from agentgym.store.store import Store
from agentgym.store.transfer.atif_import import from_atif
from agentgym.store.transfer.document import FORMAT, from_document, harness_of
from agentgym.store.transfer.errors import TransferError


@dataclass(slots=True)
class ImportReport:
    """ids: of every trajectory read. added: not there before. without_tokens: kept, and no evidence. refused: place and why."""

    ids: list[str] = field(default_factory=list)
    added: int = 0
    known: int = 0
    without_tokens: int = 0
    refused: list[str] = field(default_factory=list)


def import_file(
    store: Store, path: Path, *, run_id: str | None = None, on_progress: Callable[[str], None] = lambda place: None
) -> ImportReport:
    """Store every trajectory in `path`. run_id: in place of the one they carry.

    Raises TransferError where the path cannot be read, or holds no JSON document at all, and StoreUnusableError where the
    store takes nothing.
    """
    report = ImportReport()
    for place, text in _texts(path, report):
        try:
            trajectory, harness, foreign = _read(json.loads(text.decode("utf-8")))
        except TransferError as error:
            report.refused.append(f"{place}: {error}")
            continue
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            report.refused.append(f"{place}: no trajectory ({type(error).__name__}: {error})")
            continue
        trajectory = trajectory if run_id is None else replace(trajectory, run_id=run_id)
        try:
            added = _add(store, trajectory, harness, foreign=foreign)
        except StoreUnusableError:
            raise
        except StoreError as error:
            report.refused.append(f"{place}: {error}")
            continue
        report.ids.append(trajectory.id)
        report.added += added
        report.known += not added
        report.without_tokens += bool(trajectory.calls) and not any(len(c.prompt_token_ids) for c in trajectory.calls)
        on_progress(place)
    return report


def _read(document: Any) -> tuple[Trajectory, Mapping[str, Any] | None, bool]:
    if isinstance(document, dict) and document.get("format") == FORMAT:
        return from_document(document), harness_of(document), False
    version = document.get("schema_version") if isinstance(document, dict) else None
    if isinstance(version, str) and version.startswith("ATIF-"):
        return from_atif(document)
    kind = f"an object with {sorted(document)[:6]}" if isinstance(document, dict) else type(document).__name__
    raise TransferError(f"neither an agentgym document nor ATIF, but {kind}")


def _add(store: Store, trajectory: Trajectory, harness: Mapping[str, Any] | None, *, foreign: bool) -> bool:
    """A foreign document has no time of its own: its id, made from its content, says that it is there already."""
    if foreign and store.has(trajectory.id):
        return False
    return store.add(trajectory, harness)


def _texts(path: Path, report: ImportReport) -> Iterator[tuple[str, bytes]]:
    """(place, text) of every document, one in memory at a time; a file of a directory that cannot be read is refused."""
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.suffix in (".json", ".jsonl"))
        if not files:
            raise TransferError(f"{path} holds no .json or .jsonl file")
        for file in files:
            try:
                yield from _texts(file, report)
            except TransferError as error:
                report.refused.append(f"{file}: {error}")
        return
    try:
        with path.open("rb") as file:
            if path.suffix == ".jsonl":
                for number, line in enumerate(file, 1):
                    if line.strip():
                        yield f"{path}:{number}", line
            else:
                yield str(path), file.read()
    except OSError as error:
        raise TransferError(f"cannot read {path}: {error}") from error
