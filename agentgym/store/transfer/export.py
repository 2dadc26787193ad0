"""Write the trajectories a filter selects in another format, one at a time.

A target that ends in `.jsonl` gets one line per trajectory, any other path is a directory with a file per trajectory
(json, atif) or a data set (parquet). Files appear whole: they are written beside their place and renamed into it. A
trajectory that the format has no room for, or whose bytes are damaged, is left out, counted and told.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, get_args
from urllib.parse import quote

from agentgym.store.errors import CorruptError, NotFoundError
from agentgym.store.filter import TrajectoryFilter
from agentgym.store.records import Trajectory
from agentgym.store.store import Store
from agentgym.store.transfer.atif import to_atif
from agentgym.store.transfer.document import dumps, to_document
from agentgym.store.transfer.errors import TransferError
from agentgym.store.transfer.parquet import ParquetDirectory
from agentgym.store.transfer.rows import LeftOut, prediction_row, sft_row
from agentgym.store.transfer.transcript import Transcribe, recorded_transcript

Format = Literal["atif", "parquet", "sft", "predictions", "json"]
FORMATS: tuple[str, ...] = get_args(Format)


@dataclass(slots=True)
class ExportReport:
    """trajectories: written. rows: lines, files or sequences. left_out: how many, by reason."""

    format: str
    trajectories: int = 0
    rows: int = 0
    files: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def export(
    store: Store,
    where: TrajectoryFilter,
    format: Format,
    target: Path,
    *,
    transcribe: Transcribe = recorded_transcript,
    on_progress: Callable[[str], None] = lambda trajectory_id: None,
) -> ExportReport:
    """Write all matching trajectories to `target`. Raises TransferError where it cannot be written.

    transcribe: the words of a trajectory, for atif and sft.
    """
    report = ExportReport(format)
    harness = HarnessDocuments(store)
    documents: dict[str, Callable[[Trajectory], Mapping[str, Any]]] = {
        "json": lambda one: to_document(one, harness.document(one.harness_digest)),
        "atif": lambda one: to_atif(one, transcribe(one)),
        "sft": lambda one: sft_row(one, transcribe),
        "predictions": prediction_row,
    }

    def damaged(trajectory_id: str, error: CorruptError) -> None:
        report.left_out["its stored bytes are damaged"] += 1

    trajectories = store.iter(where, on_corrupt=damaged)
    try:
        if format == "parquet":
            _data_set(trajectories, target, report, on_progress)
        elif format == "predictions":
            _attempts(trajectories, documents[format], target, report, on_progress)
        elif target.suffix == ".jsonl" or format == "sft":
            _lines(trajectories, documents[format], target, report, on_progress)
        else:
            _files(trajectories, documents[format], target, report, on_progress)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # the machine's, not the user's
        raise TransferError(f"cannot write {target}: {error.strerror or error}") from error
    return report


class HarnessDocuments:
    """The harness documents of a run: few and repeated."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, Mapping[str, Any] | None] = {}

    def document(self, digest: str) -> Mapping[str, Any] | None:
        """None where the store has it not, or not any more as it was."""
        if digest not in self._known:
            try:
                self._known[digest] = self._store.get_document(digest)
            except (NotFoundError, CorruptError):
                self._known[digest] = None
        return self._known[digest]


_Make = Callable[[Trajectory], Mapping[str, Any]]
_Progress = Callable[[str], None]


def _made(
    trajectories: Iterator[Trajectory], make: _Make, report: ExportReport, on_progress: _Progress
) -> Iterator[tuple[Trajectory, Mapping[str, Any]]]:
    for trajectory in trajectories:
        try:
            made = make(trajectory)
        except LeftOut as reason:
            report.left_out[str(reason)] += 1
        else:
            yield trajectory, made
            report.trajectories += 1
            report.rows += 1
        on_progress(trajectory.id)


def _lines(
    trajectories: Iterator[Trajectory], make: _Make, target: Path, report: ExportReport, on_progress: _Progress
) -> None:
    with _appearing(target) as file:
        for _, made in _made(trajectories, make, report, on_progress):
            file.write(dumps(made) + "\n")
    report.files.append(str(target))


def _files(
    trajectories: Iterator[Trajectory], make: _Make, target: Path, report: ExportReport, on_progress: _Progress
) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for trajectory, made in _made(trajectories, make, report, on_progress):
        with _appearing(target / f"{quote(trajectory.id, safe='')}.json") as file:
            file.write(dumps(made) + "\n")
    report.files.append(str(target))


def _attempts(
    trajectories: Iterator[Trajectory], make: _Make, target: Path, report: ExportReport, on_progress: _Progress
) -> None:
    """The n-th attempt at an instance goes into the n-th file: an evaluation takes one prediction per instance."""
    seen: Counter[tuple[str, str]] = Counter()
    files: list[IO[str]] = []
    with ExitStack() as stack:
        for _, made in _made(trajectories, make, report, on_progress):
            key = made["instance_id"], made["model_name_or_path"]
            if seen[key] == len(files):
                path = target if not files else target.with_suffix(f".{len(files) + 1}{target.suffix}")
                files.append(stack.enter_context(_appearing(path)))
                report.files.append(str(path))
            files[seen[key]].write(dumps(made) + "\n")
            seen[key] += 1


def _data_set(trajectories: Iterator[Trajectory], target: Path, report: ExportReport, on_progress: _Progress) -> None:
    directory = ParquetDirectory(target)
    try:
        for trajectory in trajectories:
            rows = directory.add(trajectory)
            report.rows += rows
            report.trajectories += rows > 0
            if not rows:
                report.left_out["the policy sampled nothing"] += 1
            on_progress(trajectory.id)
        report.files += map(str, directory.close())
    except BaseException:
        directory.abandon()
        raise


@contextmanager
def _appearing(path: Path) -> Iterator[IO[str]]:
    """A text file that is there whole at the end, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            yield file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
