"""Task sources: where a task's hidden tests and its gold patch come from, one small class per kind of source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentgym.tasks.manifest import AgentGymTable, FilesSource
from agentgym.tasks.model import TaskError, TaskMaterial
from agentgym.tasks.pypi import PypiMaterial


@dataclass(frozen=True, slots=True)
class FilesMaterial:
    """Material that lies in the task directory itself."""

    hidden: Path
    gold: Path

    def hidden_tests(self) -> Path:
        if not self.hidden.is_dir():
            raise TaskError(f"hidden tests are missing: {self.hidden} is no directory")
        return self.hidden

    def gold_patch(self) -> bytes:
        if not self.gold.is_file():
            raise TaskError(f"the gold patch is missing: {self.gold} is no file")
        return self.gold.read_bytes()


def open_source(root: Path, table: AgentGymTable) -> TaskMaterial:
    """The material of the task in directory `root`."""
    if isinstance(table.source, FilesSource):
        return FilesMaterial(root / table.source.hidden, root / table.source.gold)
    return PypiMaterial(table.source, tuple(table.test_paths))


def source_faults(root: Path, table: AgentGymTable) -> Iterator[str]:
    """What the directory lacks for its own source."""
    source = table.source
    if isinstance(source, FilesSource):
        if not (root / source.hidden).is_dir():
            yield f"agentgym.source.hidden: {source.hidden} is no directory of the task"
        if not (root / source.gold).is_file():
            yield f"agentgym.source.gold: {source.gold} is no file of the task"
