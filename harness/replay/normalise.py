"""What may differ between two runs of the same command without meaning anything: clocks, durations, addresses, pids,
random names. Each rule replaces such a spot by its name, so that a diff shows only what is left.
"""

from __future__ import annotations

import re

_UNITS = r"(?:ns|[uµm]s|m?sec(?:ond)?s?|s|min(?:ute)?s?)"
_DAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? +)"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"

RULES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("<timestamp>", r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z| ?[+-]\d\d:?\d\d)?)?\b"),
        ("<timestamp>", rf"\b{_DAY}?{_MONTH} +\d{{1,2}} +(?:\d\d:\d\d(?::\d\d)?(?: \w+)? ?(?:\d{{4}})?|\d{{4}})\b"),
        ("<clock>", r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"),
        ("<address>", r"\b0x[0-9a-fA-F]{6,16}\b"),
        ("<duration>", rf"\b\d+\.\d+ ?{_UNITS}\b"),
        ("<duration>", rf"(?<=\bin )\d+ ?{_UNITS}\b"),
        ("<duration>", r"(?<=\breal\s)\d+m\d+[.,]\d+s|(?<=\buser\s)\d+m\d+[.,]\d+s|(?<=\bsys\s)\d+m\d+[.,]\d+s"),
        ("<pid>", r"(?i)(?<=\bpid[ =:])\d+\b|(?<=\bprocess )\d+\b|(?<=^\[\d\] )\d+$"),
        ("<tmp>", r"(?<=/tmp/)[\w.-]*\w{6,}|(?<=\btmp\.)\w{6,}"),
    )
)


def normalise(text: str) -> str:
    """`text` with every such spot named instead of spelled out."""
    lines = text.split("\n")
    for name, pattern in RULES:
        lines = [pattern.sub(name, line) for line in lines]
    return "\n".join(lines)
