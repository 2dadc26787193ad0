"""PyPI release pairs: the older release is the problem; the newer one's source is the answer and its tests the judge.

No third-party code is shipped: both source distributions are pinned by sha256, fetched through pip's configured index
when they are needed, and kept in the user's cache by digest. From the pair follow

    hidden tests  the newer release's test-owned files (old test files are deleted before they are laid over the
    workdir) gold patch    `git diff --binary` from old to new over *source* files only; docs, metadata and tests stay
    as they were
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agentgym.errors import AgentGymError
from agentgym.tasks import fetch_sdist
from agentgym.tasks.diff import tree_diff
from agentgym.tasks.digest import content_files
from agentgym.tasks.manifest import PypiSource
from agentgym.tasks.paths import matches

NOT_SOURCE = (
    "*.md", "*.rst", "*.txt", "PKG-INFO", "**/*.egg-info/**", "LICENSE*", "LICENCE*", "COPYING*", "AUTHORS*", "CHANGE*",
    "NEWS*", "README*", "MANIFEST.in", "setup.cfg", "setup.py", "pyproject.toml", "tox.ini", "noxfile.py", "Makefile",
    "versioneer.py", "uv.lock", "poetry.lock", "docs/**", "doc/**", "examples/**", "benchmark*/**", "benchmark*.py",
    "bench/**", "changelog.d/**", "news/**", "releasenotes/**", "newsfragments/**", "**/_version.py", ".*", ".*/**",
)  # fmt: skip


class SourceUnavailable(AgentGymError):
    """The package index did not give a pinned release."""


def cache_root() -> Path:
    """`$XDG_CACHE_HOME/agentgym` (default `~/.cache/agentgym`)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentgym"


@contextmanager
def _filled_once(target: Path) -> Iterator[Path | None]:
    """A scratch folder that becomes `target` when the block ends, or None where `target` exists; safe under races."""
    if target.exists():
        yield None
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".part-", dir=target.parent))
    try:
        yield scratch
        try:
            scratch.rename(target)
        except OSError:
            if not target.exists():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def index_settings() -> dict[str, str]:
    """pip's settings, asked for once: each answer of pip costs a second and more."""
    return _settings(tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("PIP_"))))


@lru_cache(maxsize=8)
def _settings(variables: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return fetch_sdist.pip_settings()


def index_files(package: str) -> list[tuple[str, str | None]]:
    """(filename, sha256 where the index says it) of all that it offers of a package; raises SourceUnavailable."""
    try:
        return [(name, digest) for name, _, digest in fetch_sdist.list_files(package, index_settings())]
    except fetch_sdist.FetchError as error:
        raise SourceUnavailable(str(error), hint="check the index with: python -m pip config list") from error


def release_tree(package: str, filename: str, sha256: str) -> Path:
    """The unpacked source distribution, from the cache or the index; raises SourceUnavailable."""
    target = cache_root() / "sdists" / sha256
    try:
        with _filled_once(target) as scratch:
            if scratch is not None:
                archive = scratch / "archive"
                fetch_sdist.download(package, filename, sha256, archive, index_settings())
                fetch_sdist.unpack(archive, scratch / "tree")
                archive.unlink()
    except fetch_sdist.FetchError as error:
        raise SourceUnavailable(
            f"{filename} cannot be fetched: {error}", hint="check the index with: python -m pip config list"
        ) from error
    return target / "tree"


def copy_files(source: Path, target: Path, keep: frozenset[str]) -> None:
    """Copy the named relative files of `source` into `target`."""
    for name in keep:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, target / name)


def split_files(tree: Path, test_paths: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """(source files, test-owned files) of a release, as relative POSIX paths; docs and metadata are in neither."""
    names = frozenset(path.relative_to(tree).as_posix() for path in content_files(tree))
    tests = frozenset(name for name in names if matches(name, test_paths))
    return frozenset(name for name in names - tests if not matches(name, NOT_SOURCE)), tests


@dataclass(frozen=True, slots=True)
class PypiMaterial:
    """Hidden tests and gold patch of one release pair."""

    source: PypiSource
    test_paths: tuple[str, ...]

    def old_tree(self) -> Path:
        return release_tree(self.source.package, self.source.old_filename, self.source.old_sha256)

    def new_tree(self) -> Path:
        return release_tree(self.source.package, self.source.new_filename, self.source.new_sha256)

    def hidden_tests(self) -> Path:
        new = self.new_tree()
        _, tests = split_files(new, self.test_paths)
        target = new.parent / f"tests-{_short_name(self.test_paths)}"
        with _filled_once(target) as scratch:
            if scratch is not None:
                copy_files(new, scratch, tests)
        return target

    def changed_files(self) -> tuple[list[str], list[str]]:
        """(source files that the newer release changed or added, those it removed), sorted."""
        old, new = self.old_tree(), self.new_tree()
        before, _ = split_files(old, self.test_paths)
        after, _ = split_files(new, self.test_paths)
        changed = [
            name for name in after if name not in before or (old / name).read_bytes() != (new / name).read_bytes()
        ]
        return sorted(changed), sorted(before - after)

    def gold_patch(self) -> bytes:
        old, new = self.old_tree(), self.new_tree()
        old_source, _ = split_files(old, self.test_paths)
        new_source, _ = split_files(new, self.test_paths)
        return tree_diff(old, new, old_source, new_source)


def _short_name(parts: tuple[str, ...]) -> str:
    """A short, stable name for a tuple of globs."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
