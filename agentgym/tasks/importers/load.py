"""A file of rows into task directories; every row becomes one or is listed with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentgym.tasks.importers.directory import write_instance
from agentgym.tasks.importers.read import UnreadableRows, read_rows
from agentgym.tasks.importers.rows import RowRefused, normalise


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that became no task. place: file and row. instance_id: "" where it has none."""

    place: str
    instance_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Every row is in exactly one of the two."""

    written: tuple[Path, ...]
    refused: tuple[Refusal, ...]

    def reasons(self) -> Mapping[str, int]:
        """How often each reason was given."""
        return Counter(refusal.reason for refusal in self.refused)


def import_rows(benchmark: str, source: str | Path, parent: Path) -> ImportReport:
    """Import every row of `source` into `parent`; raises UnreadableRows where the file itself is unusable."""
    written: dict[str, Path] = {}
    refused: list[Refusal] = []
    for place, row in read_rows(source):
        name = str(row.get("instance_id", "")) if isinstance(row, Mapping) else ""
        try:
            if isinstance(row, UnreadableRows):
                raise RowRefused(str(row))
            instance = normalise(benchmark, row)
            name = instance.instance_id
            if name in written:
                raise RowRefused("an earlier row of this file has the same instance_id")
            written[name] = write_instance(instance, row, parent)
        except RowRefused as error:
            refused.append(Refusal(place, name, str(error)))
    return ImportReport(tuple(written.values()), tuple(refused))
