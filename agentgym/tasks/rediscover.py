"""Does the generator find what is known? Pairs whose deciding tests somebody has established are generated anew and compared.

References are the shipped tasks, or a JSON list of pairs verified elsewhere (`package`, `old`, `new`, `fail_to_pass`,
`n_pass_to_pass`). FAIL_TO_PASS must be equal, test by test. PASS_TO_PASS is compared test by test where the reference names
them, else by number; it may differ where a test passes on one machine and not on another, and every difference is shown.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from agentgym.sandbox.protocol import SandboxBackend
from agentgym.tasks.discovery import Discovery
from agentgym.tasks.from_pypi import from_pypi
from agentgym.tasks.model import Task, TaskError
from agentgym.tasks.pypi import PypiMaterial, SourceUnavailable

BEGIN, END = "<!-- rediscovery -->", "<!-- end of rediscovery -->"
MAX_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Reference:
    """What is known of a pair. pass_to_pass: None where only their number is known."""

    package: str
    old: str
    new: str
    fail_to_pass: frozenset[str]
    pass_to_pass: frozenset[str] | None
    n_pass_to_pass: int

    @property
    def name(self) -> str:
        return f"{self.package}-{self.old}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """missing, extra: FAIL_TO_PASS ids that the generator did not find, and those that only it found. lost, gained: the same
    of PASS_TO_PASS, where its ids are known. error: why it made no task.
    """

    name: str
    new: str
    expected: int
    found: int
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    pass_expected: int = 0
    pass_found: int = 0
    lost: tuple[str, ...] = ()
    gained: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str = ""

    @property
    def same(self) -> bool:
        """Are the deciding tests the same?"""
        return not (self.error or self.missing or self.extra)


def shipped_references(tasks: Iterable[Task]) -> list[Reference]:
    """Those of the tasks that are pairs of releases."""
    found = []
    for task in tasks:
        if isinstance(task.material, PypiMaterial):
            source, kept = task.material.source, frozenset(task.pass_to_pass)
            decide = frozenset(task.fail_to_pass)
            found.append(Reference(source.package, source.old, source.new, decide, kept, len(kept)))
    return found


def listed_references(file: Path) -> list[Reference]:
    """The pairs of a JSON list; raises TaskError where it is none."""
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
        return [
            Reference(
                row["package"], row["old"], row["new"], frozenset(row["fail_to_pass"]), None, row["n_pass_to_pass"]
            )
            for row in rows
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TaskError(f"{file} is no list of pairs: {type(error).__name__}: {error}") from error


async def rediscover(reference: Reference, backend: SandboxBackend) -> Comparison:
    """Generate the pair's task in a scratch folder and compare; whatever makes it no task is in `error`."""
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="agentgym-rediscover-") as scratch:
            _, found = await from_pypi(reference.package, reference.old, reference.new, Path(scratch), backend)
    except (TaskError, SourceUnavailable) as error:
        return failure(reference, error, round(time.monotonic() - started, 1))
    return compare(reference, found, round(time.monotonic() - started, 1))


def failure(reference: Reference, error: Exception, seconds: float = 0.0) -> Comparison:
    text = str(error).partition("\n")[0]
    return Comparison(reference.name, reference.new, len(reference.fail_to_pass), 0, seconds=seconds, error=text)


def compare(reference: Reference, found: Discovery, seconds: float = 0.0) -> Comparison:
    ours, kept = frozenset(found.fail_to_pass), frozenset(found.pass_to_pass)
    known = reference.pass_to_pass
    return Comparison(
        reference.name,
        reference.new,
        expected=len(reference.fail_to_pass),
        found=len(ours),
        missing=tuple(sorted(reference.fail_to_pass - ours)),
        extra=tuple(sorted(ours - reference.fail_to_pass)),
        pass_expected=reference.n_pass_to_pass,
        pass_found=len(kept),
        lost=tuple(sorted(known - kept)) if known is not None else (),
        gained=tuple(sorted(kept - known)) if known is not None else (),
        seconds=seconds,
    )


def read_results(file: Path) -> dict[str, Comparison]:
    """Earlier results, one JSON object a line, by name; a half-written last line counts as not done."""
    found: dict[str, Comparison] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        lists = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
        found[row["name"]] = Comparison(**{**row, **lists})
    return found


def append_result(file: Path, result: Comparison) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(asdict(result), ensure_ascii=False) + "\n")


def comparison_table(results: Sequence[Comparison]) -> str:
    """Markdown: one line per pair, then every difference."""
    same = sum(one.same for one in results)
    lines = [
        f"{same} of {len(results)} pairs: the same deciding tests.",
        "",
        "| pair | deciding tests | found | | must go on passing | found | note |",
        "| --- | --: | --: | --- | --: | --: | --- |",
    ]
    for one in sorted(results, key=lambda one: one.name):
        verdict = "same" if one.same else "no task" if one.error else "differs"
        lines.append(
            f"| {one.name} → {one.new} | {one.expected} | {one.found} | {verdict} | {one.pass_expected} | {one.pass_found} | "
            f"{_note(one)} |"
        )
    return "\n".join(lines) + "\n"


def _note(one: Comparison) -> str:
    parts = [one.error[:160]] if one.error else []
    for what, tests in (
        ("not found", one.missing),
        ("only found here", one.extra),
        ("no longer", one.lost),
        ("new", one.gained),
    ):
        if tests:
            more = f" and {len(tests) - MAX_SHOWN} more" if len(tests) > MAX_SHOWN else ""
            parts.append(f"{what}: {', '.join(f'`{test}`' for test in tests[:MAX_SHOWN])}{more}")
    return "; ".join(parts).replace("|", "\\|").replace("\n", " ")
