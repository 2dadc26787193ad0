"""Which neighbouring releases of a package could make a task? Told from the archives alone: nothing is built or run.

A pair is promising where the newer release ships tests, changed some of them, and changed few source lines. Only
`from_pypi` finds out whether a test tells the releases apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from packaging.version import InvalidVersion, Version

from agentgym.tasks.diff import tree_diff
from agentgym.tasks.from_pypi import Files, PairOptions, changed_lines, draft_of, pin_pair
from agentgym.tasks.model import TaskError
from agentgym.tasks.pypi import PypiMaterial, SourceUnavailable, index_files, split_files


@dataclass(frozen=True, slots=True)
class Candidate:
    """source_lines, test_lines: added and removed lines between the releases. reason: why it makes no task, "" where it
    may.
    """

    package: str
    old: str
    new: str
    source_lines: int = 0
    test_lines: int = 0
    licence: str = ""
    reason: str = ""


def releases(package: str, offered: Files) -> list[str]:
    """Final versions among the source distributions that are offered, oldest first."""
    name = r"[-_.]+".join(re.escape(part) for part in re.split(r"[-_.]+", package))
    pattern = re.compile(rf"{name}-([^-]+)\.tar\.(?:gz|bz2|xz)", re.IGNORECASE)
    names = [file for file, digest in offered if digest]
    found: dict[Version, str] = {}
    for text in (match.group(1) for match in map(pattern.fullmatch, names) if match):
        try:
            version = Version(text)
        except InvalidVersion:
            continue
        if not version.is_prerelease:
            found[version] = text
    return [found[version] for version in sorted(found)]


def candidates(package: str, *, last: int = 8) -> Iterator[Candidate]:
    """The newest `last` pairs of neighbouring releases, oldest first; raises SourceUnavailable."""
    offered = index_files(package)
    for old, new in [*pairwise(releases(package, offered))][-last:]:
        yield _candidate(package, old, new, offered)


def _candidate(package: str, old: str, new: str, offered: Files) -> Candidate:
    try:
        source = pin_pair(package, old, new, offered)
        draft = draft_of(source, PairOptions())
    except (TaskError, SourceUnavailable) as error:
        return Candidate(package, old, new, reason=str(error).removeprefix(f"{package}-{old}: "))
    paths = tuple(draft.test_paths)
    material = PypiMaterial(source, paths)
    before, after = material.old_tree(), material.new_tree()
    tests = changed_lines(tree_diff(before, after, split_files(before, paths)[1], split_files(after, paths)[1]))
    return Candidate(
        package,
        old,
        new,
        source_lines=changed_lines(material.gold_patch()),
        test_lines=tests,
        licence=draft.licence,
        reason="" if tests else "the tests did not change",
    )
