"""Read from pytest's own output, for people, how tests failed: the test's statement, and what was wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable

_HEADER = re.compile(r"_{3,} (?:ERROR at \w+ of )?(.+?) _{3,}")
_WORDY = 12
"""A message of fewer letters than this says nothing without its statement."""


def reasons(log: str, ids: Iterable[str]) -> dict[str, str]:
    """id → one line, where the log has it: pytest's short summary, behind the statement of the test at which it failed."""
    statements = _statements(log)
    found: dict[str, str] = {}
    for test in ids:
        summary = _summary(log, test)
        statement = statements.get(".".join(test.split("::")[1:]), "")
        if summary or statement:
            found[test] = _joined(statement, summary)
    return found


def _summary(log: str, test: str) -> str:
    """ "FAILED id - reason" of the short summary."""
    for line in log.splitlines():
        if line.startswith((f"FAILED {test} - ", f"ERROR {test} - ")):
            return line[line.index(f"{test} - ") + len(test) + 3 :].strip()
    return ""


def _statements(log: str) -> dict[str, str]:
    """Title of a traceback ("TestX.test_y[a]") → the line of the outermost frame that is marked as failing."""
    found: dict[str, str] = {}
    title = ""
    for line in log.splitlines():
        header = _HEADER.fullmatch(line)
        if header:
            title = header.group(1)
        elif line.startswith(("_ _ _", "===")):
            title = ""
        elif title and line.startswith("> "):
            found.setdefault(title, line[1:].strip())
            title = ""
    return found


def _joined(statement: str, summary: str) -> str:
    plain = summary.removeprefix("AssertionError").lstrip(": ")
    if not statement or statement.startswith(("def ", "async def ", "class ")):
        return summary
    if not plain or (plain.startswith("assert ") and len(plain) < _WORDY + len("assert ")):
        return statement
    return f"{statement} fails with {summary}" if summary else statement
