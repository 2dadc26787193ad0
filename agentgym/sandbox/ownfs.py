"""A file system of its own for what a `local` sandbox writes: ext4 in a sparse file, so that its disk limit is exact.

Only root can mount one. The mount is made inside the jail's private mount namespace (`jail.py`), so it and its loop device
go with the jail's last process; the file takes no more of the disk than what was written, and gives back what is deleted.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

from agentgym.sandbox.process import run_logged
from agentgym.sandbox.protocol import ImageError, StartError

MOUNT_OPTIONS = "loop,discard,noatime,nosuid,nodev"


async def make(path: Path, size_mb: int, *, uid: int) -> None:
    """An empty file system in the new file `path`, its root owned by `uid`; takes some milliseconds."""
    with path.open("wb") as file:
        file.truncate(max(size_mb, 8) << 20)
    options = f"lazy_itable_init=1,nodiscard,root_owner={uid}:{uid}"
    features = "^has_journal,^resize_inode"  # what a crash leaves is thrown away, and nothing grows
    program = shutil.which("mkfs.ext4", path=_path()) or "mkfs.ext4"
    command = [program, "-q", "-F", "-m", "0", "-O", features, "-E", options, str(path)]
    try:
        await run_logged(command, what="making a sandbox's file system", log=lambda line: None)
    except ImageError as error:
        raise StartError(str(error)) from error


async def usable(place: Path) -> bool:
    """Whether this process can make and mount one."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4", path=_path()) is None:
        return False
    file = place / "disk"
    try:
        await make(file, 8, uid=0)
        script = 'mount -o "$1" "$2" /mnt && touch /mnt/written'
        probe = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", MOUNT_OPTIONS, str(file)]
        process = await asyncio.create_subprocess_exec(
            *probe,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        return await process.wait() == 0
    except StartError:
        return False
    finally:
        file.unlink(missing_ok=True)


def _path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
