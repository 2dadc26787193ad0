"""The trajectories that a filter selects in another format, one at a time: into files, or as a stream of bytes.

`stream` is a JSON document per line, or one Parquet file; a target that ends in `.jsonl` or `.parquet` gets it. Any other path is
a directory with a file per trajectory (json, atif) or a data set (parquet). Files appear whole: they are written beside their
place and renamed into it. A trajectory that the format has no room for, or whose bytes are damaged, is left out and counted.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
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
from agentgym.store.transfer.names import short
from agentgym.store.transfer.parquet import ParquetDirectory, ParquetStream
from agentgym.store.transfer.rows import LeftOut, prediction_row, sft_row
from agentgym.store.transfer.transcript import Transcribe, recorded_transcript

Format = Literal["atif", "parquet", "sft", "predictions", "json"]
FORMATS: tuple[str, ...] = get_args(Format)
IN_WORDS: tuple[Format, ...] = ("atif", "sft")
"""Those that say what the policy said, and so need `transcribe`."""


@dataclass(slots=True)
class ExportReport:
    """trajectories: written. rows: lines, files or sequences. left_out: how many, by reason."""

    format: str
    trajectories: int = 0
    rows: int = 0
    files: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def stream(
    store: Store,
    where: TrajectoryFilter,
    format: Format,
    report: ExportReport,
    *,
    transcribe: Transcribe = recorded_transcript,
    on_progress: Callable[[str], None] = lambda trajectory_id: None,
) -> Iterator[bytes]:
    """All matching trajectories as one file; `report` is filled as it goes. Raises TransferError at once where it cannot be made.

    transcribe: the words of a trajectory, for atif and sft. Memory holds one trajectory; of Parquet, one group of rows.
    """
    trajectories = _counting(store, where, report)
    if format == "parquet":
        return _parquet(ParquetStream(), trajectories, report, on_progress)
    made = _made(trajectories, _maker(store, format, transcribe), report, on_progress)
    return (line for _, line in made)


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
    try:
        as_one = {"sft": True, "predictions": False, "parquet": target.suffix == ".parquet"}
        if as_one.get(format, target.suffix == ".jsonl"):
            chunks = stream(store, where, format, report, transcribe=transcribe, on_progress=on_progress)
            save(chunks, target)
            report.files.append(str(target))
            return report
        trajectories = _counting(store, where, report)
        if format == "parquet":
            _data_set(trajectories, target, report, on_progress)
            return report
        made = _made(trajectories, _maker(store, format, transcribe), report, on_progress)
        (_attempts if format == "predictions" else _files)(made, target, report)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # the machine's, not the user's
        raise TransferError(f"cannot write {target}: {error.strerror or error}") from error
    return report


def save(chunks: Iterable[bytes], target: Path) -> None:
    """A file that is there whole at the end, or not at all."""
    with _appearing(target) as file:
        for chunk in chunks:
            file.write(chunk)


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
_Made = Iterator[tuple[Trajectory, bytes]]
"""Each trajectory with its document as a line."""
_Progress = Callable[[str], None]


def _counting(store: Store, where: TrajectoryFilter, report: ExportReport) -> Iterator[Trajectory]:
    def damaged(trajectory_id: str, error: CorruptError) -> None:
        report.left_out["its stored bytes are damaged"] += 1

    return store.iter(where, on_corrupt=damaged)


def _maker(store: Store, format: Format, transcribe: Transcribe) -> _Make:
    """What makes the document of a trajectory."""
    harness = HarnessDocuments(store)
    makers: dict[str, _Make] = {
        "json": lambda one: to_document(one, harness.document(one.harness_digest)),
        "atif": lambda one: to_atif(one, transcribe(one), harness.document(one.harness_digest)),
        "sft": lambda one: sft_row(one, transcribe),
        "predictions": prediction_row,
    }
    return makers[format]


def _made(trajectories: Iterator[Trajectory], make: _Make, report: ExportReport, on_progress: _Progress) -> _Made:
    for trajectory in trajectories:
        try:
            line = f"{dumps(make(trajectory))}\n".encode()
        except LeftOut as reason:
            report.left_out[str(reason)] += 1
        except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:  # what an import let in
            report.left_out[f"it cannot be written as {report.format} ({type(error).__name__}: {error!s:.80})"] += 1
        else:
            yield trajectory, line
            report.trajectories += 1
            report.rows += 1
        on_progress(trajectory.id)


def _files(made: _Made, target: Path, report: ExportReport) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for trajectory, line in made:
        save([line], target / f"{short(quote(trajectory.id, safe=''), '+')}.json")
    report.files.append(str(target))


def _attempts(made: _Made, target: Path, report: ExportReport) -> None:
    """The n-th attempt at an instance goes into the n-th file: an evaluation takes one prediction per instance. Attempts may be
    more than a process can hold files open.
    """
    seen: Counter[tuple[str, str]] = Counter()
    paths: list[Path] = []
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        for trajectory, line in made:
            key = trajectory.task_id, trajectory.model or trajectory.policy
            begins = seen[key] == len(paths)
            if begins:
                paths.append(target if not paths else target.with_suffix(f".{len(paths) + 1}{target.suffix}"))
            with _partial(paths[seen[key]]).open("wb" if begins else "ab") as file:
                file.write(line)
            seen[key] += 1
        for path in paths:
            _partial(path).replace(path)
            report.files.append(str(path))
    finally:
        for path in paths:
            _partial(path).unlink(missing_ok=True)


def _parquet(
    file: ParquetStream, trajectories: Iterator[Trajectory], report: ExportReport, on_progress: _Progress
) -> Iterator[bytes]:
    for trajectory in trajectories:
        _count(file.add(trajectory), trajectory, report, on_progress)
        if chunk := file.taken():
            yield chunk
    file.finish()
    yield file.taken()


def _count(rows: int, trajectory: Trajectory, report: ExportReport, on_progress: _Progress) -> None:
    report.rows += rows
    report.trajectories += rows > 0
    if not rows:
        report.left_out["the policy sampled nothing"] += 1
    on_progress(trajectory.id)


def _data_set(trajectories: Iterator[Trajectory], target: Path, report: ExportReport, on_progress: _Progress) -> None:
    directory = ParquetDirectory(target)
    try:
        for trajectory in trajectories:
            _count(directory.add(trajectory), trajectory, report, on_progress)
        report.files += map(str, directory.close())
    except BaseException:
        directory.abandon()
        raise


@contextmanager
def _appearing(path: Path) -> Iterator[IO[bytes]]:
    """A file that is there whole at the end, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(path)
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")
