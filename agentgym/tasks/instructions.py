"""Instruction text made from what fails, where no person wrote one: the symptom, never the fix or its place."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agentgym.tasks.discovery import Discovery

MAX_SYMPTOMS = 6
MAX_LENGTH = 160


def readable(test: str) -> str:
    """`tests/test_a.py::TestX::test_empty_input[None]` as "empty input (None)"."""
    name = test.split("::")[-1] if "[" not in test else test.split("[")[0].split("::")[-1]
    parameter = re.search(r"\[(.*)\]$", test, re.DOTALL)
    words = re.sub(r"^test_?", "", name).replace("_", " ").strip() or name
    return f"{words} ({parameter.group(1)})" if parameter else words


def symptoms(found: Discovery) -> Iterable[str]:
    """One line per failing behaviour, tests of one function together."""
    seen: set[str] = set()
    reasons = found.reasons or {}
    for test in found.fail_to_pass:
        function = test.split("[")[0]
        if function in seen:
            continue
        seen.add(function)
        reason = re.sub(r"\s+", " ", reasons.get(test, "")).strip()
        shown = f": `{reason[:MAX_LENGTH].replace('`', chr(39))}`" if reason else ""
        yield f"- {readable(test)}{shown}"


def instruction_from_failures(package: str, found: Discovery) -> str:
    """Names the package and what goes wrong today."""
    lines = list(symptoms(found))
    more = f"\n- … and {len(lines) - MAX_SYMPTOMS} more of the kind" if len(lines) > MAX_SYMPTOMS else ""
    count = len(found.fail_to_pass)
    return (
        f"`{package}` has a bug: {count} behaviour{'s' * (count != 1)} its users rely on "
        f"{'do' if count != 1 else 'does'} not work. Observed today:\n\n"
        + "\n".join(lines[:MAX_SYMPTOMS])
        + more
        + "\n\nFind the cause in the package's source and mend it. Everything that works now must go on working.\n"
    )
