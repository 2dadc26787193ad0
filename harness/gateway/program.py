"""A program with everything it starts: one process group, which ends when it is told to and when this process dies.

A killed process cleans nothing up, so the group holds its own watcher: it reads from a pipe whose other end only we have, and
kills the group when that end is gone, by whatever road. It is started by the group's first shell before the program itself, so
there is no moment without it, and it is nobody's child, so a program that waits for its children does not wait for it.
(What has left the group by `setsid` is out of reach.)
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

# Standard input is moved first, since a background command's own is /dev/null.
_TETHERED = 'exec 3<&0 </dev/null; ( { read -r _ <&3 || kill -s KILL 0; } & ); exec 3<&-; exec sh -c "$1"'


@dataclass(frozen=True, slots=True)
class Program:
    """One that was started. `process` is its first shell; `end` must be called."""

    process: asyncio.subprocess.Process
    _tether: int

    @classmethod
    async def start(cls, command: str, *, folder: Path, env: Mapping[str, str], output: BinaryIO) -> Program:
        """Run `command` with `sh -c` in `folder`; nothing on its standard input, both outputs to `output`."""
        theirs, ours = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                "sh",
                "-c",
                _TETHERED,
                "sh",
                command,
                cwd=folder,
                env=env,
                stdin=theirs,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return cls(process, ours)

    async def end(self) -> None:
        """Kill the program and all it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()
        os.close(self._tether)
