"""Reaching into a container from outside, where the engine is on this machine and its processes are ours to kill.

From inside, one shell has to be started first, and a fork bomb that never ends takes every process slot before it can.
From outside its control group (version 1 or 2) is closed to new processes, so that nothing can fork away, and all that is
not PID 1's own is killed until there is none. The freezer would not do: a crowd at the memory limit does not freeze.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from agentgym.sandbox import cgroups
from agentgym.sandbox.engine import Engine, EngineError

_LOOKS, _PAUSE_S = 200, 0.05


async def kill_all(engine: Engine, container: str) -> bool:
    """False where it cannot be done from here; raises EngineError where the container is gone."""
    first = await _first_process(engine, container)
    group = group_of(first, container, "pids")
    with cgroups.without_cpu_limit([group_of(first, container, "cpu")]), cgroups.without_forks(group) as closed:
        if not closed or not _ours(first):
            return False
        for _ in range(_LOOKS):
            doomed = [pid for pid in cgroups.members(group) if _session(pid) != first]
            if not doomed:
                break
            for pid in doomed:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(_PAUSE_S)
    return True


@contextlib.asynccontextmanager
async def hurried(engine: Engine, container: str) -> AsyncIterator[None]:
    """Within it a container dies without a CPU limit, where that can be had from here."""
    groups: list[Path] = []
    with contextlib.suppress(EngineError):
        groups.append(group_of(await _first_process(engine, container), container, "cpu"))
    with cgroups.without_cpu_limit(groups):
        yield


async def memory_group(engine: Engine, container: str) -> Path | None:
    """Where this machine counts what the memory limit killed; None where it is not this machine that does."""
    try:
        group = group_of(await _first_process(engine, container), container, "memory")
    except EngineError:
        return None
    return group if cgroups.oom_kills([group]) is not None else None


async def _first_process(engine: Engine, container: str) -> int:
    """PID 1 as this machine numbers it; 0 where the engine is on another one."""
    if not engine.address.startswith("unix://"):
        return 0
    return int((await engine.json("GET", f"/containers/{container}/json"))["State"]["Pid"])


def group_of(pid: int, container: str, controller: str) -> Path:
    """The container's control group, version 1 or 2; a path that does not exist where there is none."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            hierarchy = controller if controller in controllers.split(",") else "" if not controllers else None
            found = Path("/sys/fs/cgroup", hierarchy or "", path.lstrip("/"))
            # The container's name is in the path, or it is another's process with the same number on another machine.
            if hierarchy is not None and container in path and (found / "cgroup.procs").exists():
                return found
    return Path("/sys/fs/cgroup/none", container)


def _session(pid: int) -> int | None:
    """PID 1 leads a session, and so its clock is in it; what was started or left by commands is not, and cannot join."""
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return None


def _ours(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return pid > 0
