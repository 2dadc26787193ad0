"""Globs over paths inside a task's workdir, one meaning everywhere: `*` stays in a folder, `**` crosses folders.

Loader, importers and the grader must agree on which files the tests own; a glob that two of them read differently is a
hole in the reward. Matching is on POSIX paths relative to the workdir, case-sensitive, whole path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache


@lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    out = ""
    index = 0
    while index < len(glob):
        if glob.startswith("**/", index):
            out += "(?:.*/)?"
            index += 3
        elif glob.startswith("**", index):
            out += ".*"
            index += 2
        elif glob[index] == "*":
            out += "[^/]*"
            index += 1
        elif glob[index] == "?":
            out += "[^/]"
            index += 1
        else:
            out += re.escape(glob[index])
            index += 1
    return re.compile(out, re.DOTALL)


def matches(path: str, globs: Iterable[str]) -> bool:
    """Does the relative POSIX path match any of the globs?"""
    return any(_pattern(glob).fullmatch(path) for glob in globs)
