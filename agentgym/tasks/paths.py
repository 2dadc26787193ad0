"""Globs over paths inside a task's workdir, one meaning everywhere.

`*` and `?` stay in a folder, `**` crosses folders, `[abc]` is a class, and a glob that names a folder owns all below
it. Loader, importers and grader must agree on which files the tests own; a glob that two of them read differently is
a hole in the reward. Matching is on POSIX paths relative to the workdir, case-sensitive, whole path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|.", re.DOTALL)
_SPECIAL = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@lru_cache(maxsize=4096)
def _pattern(glob: str) -> re.Pattern[str]:
    expression = ""
    for token in _TOKEN.findall(glob.removeprefix("./").rstrip("/")):
        if len(token) > 2 and token.startswith("["):
            expression += token.replace("[!", "[^")
        else:
            expression += _SPECIAL.get(token) or re.escape(token)
    return re.compile(rf"{expression}(?:/.*)?\Z", re.DOTALL)


def matches(path: str, globs: Iterable[str]) -> bool:
    """Does the relative POSIX path, or a folder above it, match any of the globs?"""
    return any(_pattern(glob).match(path) for glob in globs)
