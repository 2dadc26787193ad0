"""A file of rows into task directories; every row becomes one or is listed with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentgym.tasks.importers.directory import HowToRun, write_instance
from agentgym.tasks.importers.read import UnreadableRows, read_rows
from agentgym.tasks.importers.rows import Instance, RowRefused, normalise, unwrap
from agentgym.tasks.importers.runnable import clone_of, run_spec
from agentgym.tasks.swebench.client import NotRunnable


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that became no task. place: file and row. instance_id: "" where it has none."""

    place: str
    instance_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Every row is in exactly one of the first two. ungraded: tasks that nothing can grade. published: tasks that could
    not be built from the given sources, and need the image that their benchmark publishes.
    """

    written: tuple[Path, ...]
    refused: tuple[Refusal, ...]
    ungraded: tuple[Refusal, ...] = ()
    published: tuple[Refusal, ...] = ()

    def reasons(self) -> Mapping[str, int]:
        """How often each reason was given."""
        return Counter(refusal.reason for refusal in self.refused)


def import_rows(benchmark: str, source: str | Path, parent: Path, *, sources: Path | None = None) -> ImportReport:
    """Import every row of `source` into `parent`; raises UnreadableRows where the file itself is unusable.

    sources: a directory of clones (`owner/name` or `owner__name`) to build environments from.
    """
    written: dict[str, Path] = {}
    refused: list[Refusal] = []
    ungraded: list[Refusal] = []
    published: list[Refusal] = []
    for place, row in read_rows(source):
        name = str(row.get("instance_id", "")) if isinstance(row, Mapping) else ""
        try:
            if isinstance(row, UnreadableRows):
                raise RowRefused(str(row))
            instance = normalise(benchmark, row)
            name = instance.instance_id
            if name in written:
                raise RowRefused("an earlier row of this file has the same instance_id")
            how, kept = _how_to_run(instance, unwrap(row), sources)
            try:
                written[name] = write_instance(instance, row, parent, how)
            except NotRunnable as error:
                kept = str(error)
                written[name] = write_instance(instance, row, parent, replace(how, repository=None))
            if how.ungraded:
                ungraded.append(Refusal(place, name, how.ungraded))
            if kept:
                published.append(Refusal(place, name, kept))
        except RowRefused as error:
            refused.append(Refusal(place, name, str(error)))
    return ImportReport(tuple(written.values()), tuple(refused), tuple(ungraded), tuple(published))


def _how_to_run(instance: Instance, row: Mapping[str, Any], sources: Path | None) -> tuple[HowToRun, str]:
    """(how, why the environment cannot be built from the sources): a row that cannot be built may still be gradable."""
    spec, ungraded = run_spec(instance, row, None)
    if spec is None or sources is None:
        return HowToRun(spec, ungraded), ""
    try:
        repository = clone_of(instance, sources)
    except NotRunnable as error:
        return HowToRun(spec), str(error)
    whole, why = run_spec(instance, row, sources)
    return (HowToRun(whole, repository=repository), "") if whole else (HowToRun(spec), why)
