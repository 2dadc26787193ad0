"""Lines that only the answer holds: what to look for on the disk of an image that must not hold it.

Probes are grouped by the file of the answer they come from. One line may occur elsewhere by chance, a good part of a file's new
lines does not: a file on disk gives a group away when it holds at least half of it (and two lines, where it has two).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

MIN_LENGTH = 24
MAX_PER_FILE = 40
MAX_FILES = 30
GIVEN_AWAY = 0.5
MUCH_TEXT = 120
COMMON = 3
"""A single line that more files hold is everybody's idiom, not the answer."""
_VERSION_FILE = re.compile(r"(^|/)(_version|__version__|__about__)\.py$")

Groups = Mapping[str, tuple[bytes, ...]]


def base_text(trees: Iterable[Path]) -> bytes:
    """All that the problem itself holds, as one text."""
    return b"\n".join(path.read_bytes() for path in trees if path.is_file() and not path.is_symlink())


def gold_probes(patch: bytes, base: bytes) -> Groups:
    """Added lines of the gold patch, by file; generated version files say nothing of their own."""
    lines: dict[str, list[bytes]] = defaultdict(list)
    name = ""
    for line in patch.splitlines():
        if line.startswith(b"+++ "):
            name = line[4:].decode(errors="replace").removeprefix("b/")
        elif line.startswith(b"+"):
            lines[name].append(line[1:])
    return _choose({name: found for name, found in lines.items() if not _is_generated(name, found)}, base)


def _is_generated(name: str, lines: Iterable[bytes]) -> bool:
    """Version files as build tools write them look alike in every package."""
    return bool(_VERSION_FILE.search(name)) or any(b"version_tuple" in line for line in lines)


def hidden_probes(files: Mapping[str, bytes], base: bytes) -> Groups:
    """Lines of the hidden tests, by file."""
    return _choose({name: data.splitlines() for name, data in files.items()}, base)


def _choose(lines: Mapping[str, Iterable[bytes]], base: bytes) -> Groups:
    groups = {}
    for name, found in list(lines.items())[:MAX_FILES]:
        texts = {line.strip() for line in found}
        fresh = [text for text in texts if len(text) >= MIN_LENGTH and b"\0" not in text and text not in base]
        if fresh:
            groups[name] = tuple(sorted(fresh, key=lambda text: (-len(text), text))[:MAX_PER_FILE])
    return groups


def given_away(groups: Groups, hits: Mapping[str, set[bytes]]) -> list[str]:
    """One line for every (file on disk, file of the answer) that is too much alike. hits: path → probes found in it."""
    found = []
    for name, probes in groups.items():
        holders = {path: [probe for probe in probes if probe in texts] for path, texts in hits.items()}
        alike = {path: shared for path, shared in holders.items() if _enough(shared, probes)}
        if len(probes) == 1 and len(alike) > COMMON:
            continue
        found += [
            f"{path} holds {len(shared)} of {len(probes)} new lines of {name}" for path, shared in sorted(alike.items())
        ]
    return found


def _enough(shared: list[bytes], probes: tuple[bytes, ...]) -> bool:
    """Many of the lines, and a good deal of text: half of three lines may be an idiom."""
    many = len(shared) >= max(min(2, len(probes)), GIVEN_AWAY * len(probes))
    return many and sum(map(len, shared)) >= min(MUCH_TEXT, sum(map(len, probes)))
