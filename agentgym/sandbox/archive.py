"""Trees in and out of a container, as tar streams through the engine.

Outward the tar is ours: links are stored as links, owners become the sandbox's user. Inward it comes from code nobody
has read, so it is unpacked with suspicion: a member whose name leads out of the target is refused, devices and pipes are
left out, set-id bits are cleared, and links are made last, so that nothing is ever written through one.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import tarfile
from pathlib import Path
from typing import IO

from agentgym.sandbox.protocol import FileError

_BLOCK = 1 << 16


def pack(source: Path, target: str, into: IO[bytes], *, uid: int, gid: int, new_parents: list[str]) -> None:
    """Writes `source` as a tar whose names lie below `/`, ending in `target`. new_parents: directories to make on the way.

    target: absolute path in the sandbox; the directory itself is only an entry when listed in new_parents, so that an
    existing one keeps its mode.
    """

    def owned(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if member.ischr() or member.isblk() or member.isfifo():
            return None
        member.uid, member.gid, member.uname, member.gname = uid, gid, "", ""
        return member

    if not (source.exists() or source.is_symlink()):
        raise FileError(f"cannot upload {source}: it does not exist")
    with tarfile.open(fileobj=into, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for parent in new_parents:
            entry = tarfile.TarInfo(parent.lstrip("/"))
            entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, 0o755, uid, gid
            tar.addfile(entry)
        if source.is_dir():
            for child in sorted(source.iterdir()):
                tar.add(child, posixpath.join(target, child.name).lstrip("/"), filter=owned)
        else:
            tar.add(source, target.lstrip("/"), filter=owned)


def unpack(stream: IO[bytes], target: Path) -> None:
    """Unpacks what the engine sent for one path: its top member becomes `target`."""
    links: list[tuple[Path, str]] = []
    modes: list[tuple[Path, int]] = []
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        top: str | None = None
        for member in tar:
            name = member.name.rstrip("/")
            top = top if top is not None else name
            inside = _inside(name, top)
            path = target if inside == "." else target / inside
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
                modes.append((path, member.mode & 0o777))
            elif member.issym():
                links.append((path, member.linkname))
            elif member.islnk():
                shutil.copy2(target / _inside(member.linkname, top), path, follow_symlinks=False)
            elif member.isreg():
                path.parent.mkdir(parents=True, exist_ok=True)
                content = tar.extractfile(member)
                assert content is not None
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    _copy_sparse(content, file, member.size)
                os.chmod(path, member.mode & 0o777)
    for path, destination in links:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        path.symlink_to(destination)
    for path, mode in reversed(modes):  # last: a read-only directory could not have been filled
        os.chmod(path, mode)


def _copy_sparse(content: IO[bytes], file: IO[bytes], size: int) -> None:
    """Leaves holes where whole blocks are zero: a gigabyte of nothing, as a sandbox may send it, takes no gigabyte here."""
    while block := content.read(_BLOCK):
        if block.count(0) == len(block):
            file.seek(len(block), os.SEEK_CUR)
        else:
            file.write(block)
    file.truncate(size)


def _inside(name: str, top: str) -> str:
    """Where `name` lies below `top`; FileError where it does not."""
    inside = posixpath.relpath(name, top)
    if name.startswith("/") or inside.startswith("..") or ".." in name.split("/"):
        raise FileError(f"the sandbox sent a path that leads out of the download: {name!r}")
    return inside
