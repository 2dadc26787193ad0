"""Task sources: where a task's hidden tests and its gold patch come from, one small class per kind of source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentgym.tasks.manifest import AgentGymTable, BenchmarkSource, FilesSource, ScriptSource
from agentgym.tasks.model import TaskError, TaskMaterial
from agentgym.tasks.pypi import PypiMaterial, cache_root


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


@dataclass(frozen=True, slots=True)
class BenchmarkMaterial:
    """An imported row: its tests are no tree of files but a diff, and a script that its benchmark knows how to read."""

    root: Path
    source: BenchmarkSource

    def hidden_tests(self) -> Path:
        raise TaskError(f"{self.root.name}: the tests of a benchmark's row are a diff, not a tree")

    def test_patch(self) -> bytes:
        """What turns the image's tests into the hidden ones; empty where they lie in the image already."""
        return (self.root / self.source.tests).read_bytes()

    def run_script(self) -> str:
        """The commands that run the tests; raises TaskError where nothing can read what they print."""
        if not self.source.parser:
            why = self.source.ungraded or "nothing says how its tests are run"
            raise TaskError(f"{self.root.name} cannot be graded: {why}")
        return (self.root / self.source.script).read_text(encoding="utf-8")

    def gold_patch(self) -> bytes:
        return (self.root / self.source.gold).read_bytes()


@dataclass(frozen=True, slots=True)
class ScriptMaterial:
    """A plain Harbor task: nothing is laid over the workdir, and the solution is a script, not a diff."""

    root: Path

    def hidden_tests(self) -> Path:
        empty = cache_root() / "no-hidden-tests"
        empty.mkdir(parents=True, exist_ok=True)
        return empty

    def gold_patch(self) -> bytes:
        raise TaskError(f"{self.root.name}: its solution is solution/solve.sh, there is no patch")


def open_source(root: Path, table: AgentGymTable) -> TaskMaterial:
    """The material of the task in directory `root`."""
    source = table.source
    if isinstance(source, FilesSource):
        return FilesMaterial(root / source.hidden, root / source.gold)
    if isinstance(source, BenchmarkSource):
        return BenchmarkMaterial(root, source)
    if isinstance(source, ScriptSource):
        return ScriptMaterial(root)
    return PypiMaterial(source, tuple(table.test_paths))


def source_faults(root: Path, table: AgentGymTable) -> Iterator[str]:
    """What the directory lacks for its own source."""
    source = table.source
    if isinstance(source, FilesSource) and not (root / source.hidden).is_dir():
        yield f"agentgym.source.hidden: {source.hidden} is no directory of the task"
    if isinstance(source, (FilesSource, BenchmarkSource)) and not (root / source.gold).is_file():
        yield f"agentgym.source.gold: {source.gold} is no file of the task"
    if not isinstance(source, BenchmarkSource) and not (root / "tests/test.sh").is_file():
        yield "tests/test.sh: missing"
