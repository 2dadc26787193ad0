"""How many tasks of each source survived validation, and why the rest did not: a report as Markdown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from agentgym.tasks.registry import RegisteredTask

BEGIN, END = "<!-- survival report -->", "<!-- end of survival report -->"
_STATUSES = ("valid", "rejected", "error", "registered")


def survival_report(entries: Sequence[RegisteredTask]) -> str:
    """Counts by source, then one line per task."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for entry in entries:
        counts[entry.source_kind][entry.status] += 1
    lines = ["| source | valid | rejected | error | not validated |", "| --- | --: | --: | --: | --: |"]
    lines += [
        f"| {kind} | " + " | ".join(str(by[status]) for status in _STATUSES) + " |"
        for kind, by in sorted(counts.items())
    ]
    total: Counter[str] = sum(counts.values(), Counter())
    lines.append("| **all** | " + " | ".join(f"**{total[status]}**" for status in _STATUSES) + " |")
    lines += ["", "| task | verdict | split | difficulty | deciding tests | all tests | one grading | note |"]
    lines.append("| --- | --- | --- | --- | --: | --: | --: | --- |")
    lines += [_line(entry) for entry in entries]
    return "\n".join(lines) + "\n"


def _line(entry: RegisteredTask) -> str:
    report = entry.report
    deciding = len(entry.manifest.get("fail_to_pass", ()))
    total = deciding + len(entry.manifest.get("pass_to_pass", ()))
    seconds = f"{min(report.times.gold):.1f} s" if report and report.times.gold else ""
    note = entry.reason.splitlines()[0][:120].replace("|", "\\|") if entry.reason else ""
    if not note and report and report.sensitive:
        note = f"{len(report.sensitive)} tests depend on hash seed or time zone"
    return f"| {entry.id} | {entry.status} | {entry.split} | {entry.difficulty} | {deciding} | {total} | {seconds} | {note} |"


def insert(document: str, report: str, begin: str = BEGIN, end: str = END) -> str:
    """The document with the report between its markers, replacing the one that was there."""
    head, started, rest = document.partition(begin)
    _, ended, tail = rest.partition(end)
    if not started or not ended:
        return f"{document.rstrip()}\n\n{begin}\n{report}{end}\n"
    return f"{head}{begin}\n{report}{end}{tail}"
