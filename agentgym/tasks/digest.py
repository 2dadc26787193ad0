"""Content digests of directories: what a task or a build context *is*, independent of where and when it was unpacked.

A digest covers each file's relative path, executable bit and bytes (a link's target for links), in sorted order, so
it does not depend on directory order, timestamps or owners. Caches that tools leave behind are no content.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from agentgym.errors import InputError

CACHE_DIRECTORIES = frozenset({"__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache", ".git", "node_modules"})
CACHE_FILES = (".pyc", ".pyo", ".DS_Store", "~")


def content_files(root: Path) -> Iterator[Path]:
    """Every file and link below `root` that counts as content, in sorted order of its relative POSIX path.

    Raises InputError for a pipe, socket or device: reading it might never end.
    """
    found: list[Path] = []
    for directory, names, files in os.walk(root):
        links = [name for name in names if os.path.islink(os.path.join(directory, name))]
        names[:] = [name for name in names if name not in CACHE_DIRECTORIES and name not in links]
        found.extend(Path(directory, name) for name in [*files, *links] if not name.endswith(CACHE_FILES))
    for path in found:
        if not path.is_symlink() and not path.is_file():
            raise InputError(f"{path} is neither a file nor a link", hint="remove it from the directory")
    yield from sorted(found, key=lambda path: os.fsencode(path.relative_to(root).as_posix()))


def tree_digest(root: Path, *, salt: bytes = b"", without: str | None = None) -> str:
    """`sha256:<hex>` over the content of `root`.

    salt: adds what lies outside the tree (a workdir, an environment). without: a top-level folder that does not count.
    """
    total = hashlib.sha256(salt)
    for path in content_files(root):
        if path.relative_to(root).parts[0] == without:
            continue
        name = os.fsencode(path.relative_to(root).as_posix())
        if path.is_symlink():
            kind, data = b"l", os.fsencode(os.readlink(path))
        else:
            kind, data = (b"x" if os.access(path, os.X_OK) else b"f"), path.read_bytes()
        total.update(b"%d:%b%b%d:" % (len(name), name, kind, len(data)))
        total.update(data)
    return f"sha256:{total.hexdigest()}"
