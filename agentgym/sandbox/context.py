"""Build contexts: which files a COPY takes, and the tar stream that brings them into a tree.

Follows the Dockerfile reference: sources are glob patterns relative to the context and cannot leave it, `.dockerignore`
applies, a directory's content is copied rather than the directory, and a target that ends in "/" or takes several
sources is a directory.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import posixpath
import stat
import tarfile
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from docker.utils.build import exclude_paths

from agentgym.sandbox.dockerfile import Instruction
from agentgym.sandbox.protocol import ImageError


@dataclass(frozen=True, slots=True)
class Copy:
    """One COPY: context-relative patterns, an absolute target, the mode to give (None: keep)."""

    sources: tuple[str, ...]
    target: str
    into_directory: bool
    mode: int | None = None


def parse_copy(item: Instruction, words: list[str], workdir: str) -> Copy:
    """`words`: the instruction's words with variables replaced; ImageError for what the local backend cannot do."""
    mode: int | None = None
    while words and words[0].startswith("--"):
        flag, _, value = words.pop(0).partition("=")
        if flag == "--chmod":
            mode = int(value, 8)
        elif flag not in ("--chown", "--link"):
            raise ImageError(f"Dockerfile {item}: {flag} is not supported by the local backend")
    if len(words) < 2:
        raise ImageError(f"Dockerfile {item}: needs at least one source and a target")
    *sources, target = words
    if remote := [source for source in sources if "://" in source]:
        raise ImageError(f"Dockerfile {item}: cannot fetch {remote[0]}; download it in a RUN instead")
    into = target.endswith("/") or len(sources) > 1 or target in (".", "..")
    return Copy(tuple(sources), posixpath.normpath(posixpath.join(workdir, target)), into, mode)


def ignore_patterns(context: Path) -> list[str]:
    """The patterns of the context's `.dockerignore`."""
    path = context / ".dockerignore"
    rows = [row.strip() for row in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
    return [row for row in rows if row and not row.startswith("#")]


def collect(context: Path | None, copy: Copy, item: Instruction) -> tuple[bytes, str]:
    """The tar archive (relative to `/`) that does the COPY, and a digest of it that ignores times."""
    if context is None:
        raise ImageError(f"Dockerfile {item}: there is no build context")
    available = sorted(name for name in exclude_paths(str(context), ignore_patterns(context)) if name != ".")
    buffer, digest = io.BytesIO(), hashlib.sha256()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for pattern in copy.sources:
            for name, target in _matches(context, available, pattern, copy, item):
                path = context / name
                entry = archive.gettarinfo(str(path), arcname=target.lstrip("/"))
                if entry is None:
                    continue  # a socket
                entry.uid = entry.gid = 0
                entry.uname = entry.gname = ""
                if copy.mode is not None and entry.isfile():
                    entry.mode = copy.mode
                content = path.read_bytes() if entry.isfile() else b""
                entry.size = len(content)
                if entry.islnk():
                    entry.type, content = tarfile.REGTYPE, path.read_bytes()
                    entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
                facts = [entry.name, entry.mode, entry.type.decode("latin-1"), entry.linkname, len(content)]
                digest.update(json.dumps(facts).encode() + b"\0" + content)
    return buffer.getvalue(), digest.hexdigest()


def _matches(context: Path, available: list[str], pattern: str, copy: Copy, item: Instruction) -> list[tuple[str, str]]:
    """(name in the context, absolute target) for everything that one source brings along."""
    wanted = os.path.normpath(pattern.lstrip("/")) if pattern.strip("/") else "."
    if wanted.startswith(".."):
        raise ImageError(f"Dockerfile {item}: {pattern} is outside of the build context")
    if wanted == ".":
        return [(name, f"{copy.target}/{name}") for name in available]
    parts = wanted.count("/")
    roots = [name for name in available if name.count("/") == parts and fnmatchcase(name, wanted)]
    if not roots:
        raise ImageError(f"Dockerfile {item}: {pattern} is not in the build context {context}")
    found: list[tuple[str, str]] = []
    for root in roots:
        if stat.S_ISDIR(os.lstat(context / root).st_mode):
            inside = [name for name in available if name.startswith(root + "/")]
            found += [(name, copy.target + name[len(root) :]) for name in inside]
        else:
            into = copy.into_directory or len(roots) > 1
            found.append((root, f"{copy.target}/{os.path.basename(root)}" if into else copy.target))
    return found
