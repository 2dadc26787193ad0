"""Ending all that runs in a container from outside, where the engine is on this machine and its processes are ours to kill.

From inside, one shell has to be started first, and a fork bomb that never ends takes every process slot before it can.
From outside the container is frozen, so that nothing can fork away; each of its processes but PID 1 is killed; and
thawed it has only PID 1 left. Who is in the container is read from its control group, version 1 or 2.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from agentgym.sandbox.engine import Engine, EngineError


async def kill_all(engine: Engine, container: str) -> bool:
    """False where it cannot be done from here; raises EngineError where the container is gone."""
    if not engine.address.startswith("unix://"):
        return False
    first = int((await engine.json("GET", f"/containers/{container}/json"))["State"]["Pid"])
    members = members_file(first, container)
    if members is None or not _ours(first):
        return False
    try:
        await engine.json("POST", f"/containers/{container}/pause")
    except EngineError as error:
        if error.status == 409:  # not running, or frozen by somebody else: a snapshot on its way
            return False
        raise
    try:
        for pid in map(int, members.read_text().split()):
            if pid != first:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    finally:
        await engine.json("POST", f"/containers/{container}/unpause")
    return True


def members_file(pid: int, container: str) -> Path | None:
    """The `cgroup.procs` that lists the container's processes as this machine numbers them; None where there is none."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        hierarchy = "pids" if "pids" in controllers.split(",") else "" if not controllers else None
        # The container's name is in the path, or it is another's process with the same number on another machine.
        if hierarchy is not None and container in path:
            found = Path("/sys/fs/cgroup", hierarchy, path.lstrip("/"), "cgroup.procs")
            if found.exists():
                return found
    return None


def _ours(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
