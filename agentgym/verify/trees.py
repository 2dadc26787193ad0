"""Git trees on the host: hash, diff and apply without a work tree, with our own git and nobody's configuration.

A repository here is bare and private to one call (or immutable, for a cached pristine tree). Only plumbing runs, on a
temporary index: no checkout, so no link is ever followed; no hooks, filters, attributes, system or user
configuration; and git itself refuses paths that leave the tree.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentgym.errors import AgentGymError
from agentgym.verify.workspace import File

_OPTIONS = (
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.autocrlf=false",
    "core.protectNTFS=false",
    "core.quotePath=true",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
)

ABSENT, SUBMODULE = "000000", "160000"
"""Modes that stand for no file."""


class GitError(AgentGymError):
    """The host's git failed on data that should be sound; the message carries its stderr."""


class PatchDoesNotApply(Exception):
    """`git apply` refused the patch; the message is git's own."""


@dataclass(frozen=True, slots=True)
class Node:
    """What a tree holds at a path. oid: the blob's sha1."""

    mode: str
    oid: str


def blob_oid(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class Trees:
    """A bare repository at `path`, borrowing objects from `base` where given."""

    def __init__(self, path: Path, *, base: Path | None = None) -> None:
        self.path = path
        if not (path / "HEAD").exists():
            for folder in ("objects/info", "refs"):
                (path / folder).mkdir(parents=True, exist_ok=True)
            (path / "HEAD").write_text("ref: refs/heads/none\n")
            (path / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        if base is not None:
            (path / "objects/info/alternates").write_text(f"{(base / 'objects').resolve()}\n")

    def write_blob(self, data: bytes) -> str:
        oid = blob_oid(data)
        target = self.path / "objects" / oid[:2] / oid[2:]
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            partial = target.with_suffix(f".{os.getpid()}.tmp")
            partial.write_bytes(zlib.compress(b"blob %d\0" % len(data) + data, 1))
            partial.replace(target)
        return oid

    def read_blobs(self, oids: list[str]) -> dict[str, bytes]:
        output = self._git("cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in oids).encode())
        blobs: dict[str, bytes] = {}
        position = 0
        for oid in oids:
            header_end = output.index(b"\n", position)
            size = int(output[position:header_end].split()[2])
            blobs[oid] = output[header_end + 1 : header_end + 1 + size]
            position = header_end + 1 + size + 1
        return blobs

    def files(self, nodes: Mapping[str, Node]) -> dict[str, File]:
        """The content of these entries, by path; each blob is read once."""
        blobs = self.read_blobs(list(dict.fromkeys(node.oid for node in nodes.values()))) if nodes else {}
        return {path: File(node.mode, blobs[node.oid]) for path, node in nodes.items()}

    def write_tree(self, base: str | None, changes: Mapping[str, File | None]) -> str:
        """The tree that is `base` (None: empty) with `changes` laid over it (None: removed). Returns its oid."""
        zero = "0" * 40
        lines = [(p, "0", zero) if f is None else (p, f.mode, self.write_blob(f.data)) for p, f in changes.items()]
        # Removals first: a directory must be gone before a file takes its name, and the other way round.
        lines.sort(key=lambda line: line[1] != "0")
        info = b"".join(f"{mode} {oid}\t".encode() + os.fsencode(path) + b"\0" for path, mode, oid in lines)
        with self._index(base) as env:
            self._git("update-index", "-z", "--add", "--replace", "--index-info", stdin=info, env=env)
            return self._git("write-tree", env=env).decode().strip()

    def nodes(self, tree: str) -> dict[str, Node]:
        nodes: dict[str, Node] = {}
        for record in self._git("ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0")[:-1]:
            meta, path = record.split(b"\t", 1)
            mode, _, oid = meta.decode().split()
            nodes[os.fsdecode(path)] = Node(mode, oid)
        return nodes

    def diff(self, old: str, new: str) -> bytes:
        options = ("--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
        return self._git("diff-tree", "-r", "-p", *options, old, new)

    def changes(self, base: str, patch: bytes) -> dict[str, File | None]:
        """What `git apply` changes in the tree `base`, None where it removes; submodule entries are left out.

        Every grading does this, so it takes few processes. Raises PatchDoesNotApply.
        """
        if not patch.strip():
            return {}
        with self._index(base) as env:
            try:
                self._git("apply", "--cached", "--whitespace=nowarn", "-", stdin=patch, env=env)
            except GitError as error:
                raise PatchDoesNotApply(str(error)) from error
            raw = self._git("diff-index", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames", base, env=env)
        fields = raw.split(b"\0")[:-1]
        entries = {
            os.fsdecode(path): meta.decode().split() for meta, path in zip(fields[::2], fields[1::2], strict=True)
        }
        nodes = {path: Node(meta[1], meta[3]) for path, meta in entries.items()}
        present = {path: node for path, node in nodes.items() if node.mode not in (ABSENT, SUBMODULE)}
        changed: dict[str, File | None] = {path: None for path, node in nodes.items() if node.mode == ABSENT}
        return changed | self.files(present)

    def ignored(self, rules: Mapping[str, bytes], paths: list[str]) -> set[str]:
        """Which of `paths` the `.gitignore` files in `rules` (path -> content) exclude."""
        if not rules or not paths:
            return set()
        with tempfile.TemporaryDirectory(prefix="agentgym-ignore-") as folder:
            for path, content in rules.items():
                target = Path(folder, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
            arguments = ("--work-tree", folder, "check-ignore", "--no-index", "-z", "--stdin")
            output = self._git(*arguments, stdin=stdin, ok=(0, 1), cwd=folder, bare=False)
        return {os.fsdecode(path) for path in output.split(b"\0")[:-1]}

    def _index(self, base: str | None) -> _Index:
        return _Index(self, base)

    def _git(
        self,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        ok: tuple[int, ...] = (0,),
        cwd: str | None = None,
        bare: bool = True,
    ) -> bytes:
        options = [part for option in (*_OPTIONS, f"core.bare={str(bare).lower()}") for part in ("-c", option)]
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            **(env or {}),
        }
        command = ["git", "--git-dir", str(self.path), *options, *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, env=environment, cwd=cwd or self.path, check=False
        )
        if done.returncode not in ok:
            message = done.stderr.decode(errors="replace").strip()[-2000:]
            raise GitError(f"git {arguments[0]} ended with {done.returncode}: {message}")
        return done.stdout


class _Index:
    """A temporary index file loaded with `base`; the environment that names it."""

    def __init__(self, trees: Trees, base: str | None) -> None:
        self._trees, self._base = trees, base
        self._folder = tempfile.TemporaryDirectory(prefix="agentgym-index-")

    def __enter__(self) -> dict[str, str]:
        env = {"GIT_INDEX_FILE": str(Path(self._folder.name, "index"))}
        self._trees._git("read-tree", *([self._base] if self._base else ["--empty"]), env=env)
        return env

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()
