"""The state at a branch point, restored for many: the first child runs the prefix again, the others start from a snapshot of it.

A snapshot holds files. What else a later step can see is carried along: the directory and the exported variables of the shell,
and what the edit tool can undo. Where the state holds more than that, no snapshot is taken and each child runs the prefix
itself: processes that are still at work, files in memory (`/dev/shm`), or an engine that cannot freeze a sandbox. (A daemon in a
session of its own that has cleared its environment is not seen.)

A snapshot is of this run alone: the reaper removes it when its owner has ended.
"""

from __future__ import annotations

import asyncio
import copy
import shlex
from dataclasses import dataclass, field

from agentgym.sandbox.protocol import Image, Sandbox, SandboxError
from agentgym.sandbox.state import ShellState
from harness.tools import ToolContext

_LEFT = """
for d in /proc/[0-9]*; do
    read -r s <"$d/stat" || continue
    set -- ${s##*) }
    [ "$1" = Z ] && continue
    [ "$4" = 0 ] || [ -d "/proc/$4" ] || echo "${d#/proc/}"
    while IFS= read -r e || [ -n "$e" ]; do
        case $e in *"AGENTGYM_CALL=$AGENTGYM_CALL"*) ;; *AGENTGYM_CALL=*) echo "${d#/proc/}" ;; esac
    done <"$d/environ"
done 2>/dev/null
ls -A /dev/shm 2>/dev/null
"""
"""Prints processes that earlier calls left, and files that no snapshot holds. Such a process carries its call's mark in its
environment, or is in the session of a shell that has ended."""
_OUTPUT = 1 << 20


@dataclass(slots=True)
class Checkpoint:
    """One branch point. image: what a child starts from; None: the task's own, and the prefix is run again."""

    image: Image | None = None
    _shell: str = ""
    _undo: dict[str, list[tuple[bytes | None, bytes]]] = field(default_factory=dict)
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    async def settled(self) -> None:
        """Wait until it is known whether there is a snapshot."""
        await self._settled.wait()

    def settle(self) -> None:
        """There will be no (other) snapshot."""
        self._settled.set()

    async def freeze(self, tools: ToolContext) -> None:
        """Keep the state of a sandbox in which the prefix has been run, if a snapshot can hold all of it; raises SandboxError
        where the sandbox fails on the way.
        """
        if self._settled.is_set():
            return
        left = await tools.sandbox.exec(_LEFT)
        if left.exit_code is not None and not left.output.strip():
            self._shell = await _report(tools.sandbox, stateful=True)
            self._undo = copy.deepcopy(tools.undo)
            try:
                self.image = await tools.sandbox.snapshot()
            except SandboxError:  # it goes on, and the others run the prefix as it did
                self.image = None
        self.settle()

    def holds(self, sandbox: Sandbox) -> bool:
        """Whether this sandbox was started from the snapshot."""
        return self.image is not None and sandbox.image.ref == self.image.ref

    async def thaw(self, tools: ToolContext) -> None:
        """Give a sandbox that was started from the snapshot what the snapshot does not hold; raises SandboxError."""
        state = ShellState(tools.workdir, await _report(tools.sandbox, stateful=False))
        state.update(self._shell)
        await tools.sandbox.exec(f"{state.exports}\ncd -- {shlex.quote(state.cwd)}", stateful=True)
        tools.undo = copy.deepcopy(self._undo)


async def _report(sandbox: Sandbox, *, stateful: bool) -> str:
    command = "pwd; export -p" if stateful else "export -p"
    return (await sandbox.exec(command, stateful=stateful, output_limit=_OUTPUT)).output.decode(
        "utf-8", "surrogateescape"
    )
