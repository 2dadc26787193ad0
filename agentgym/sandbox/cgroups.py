"""Resource limits of one `local` sandbox through control groups, version 1 or 2, where this process may make them.

A sandbox's group is made below our own, so limits on ourselves hold for it too. On version 2 that is only possible
where the parent has no processes of its own; as root the group then sits below the root of the hierarchy. What could
not be set is left out of `enforced`, and the backend falls back to rlimits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym.sandbox.protocol import Limits

PARENT = "agentgym"
_LOOKS, _PAUSE_S = 100, 0.05
_AT_REST = 2  # PID 1 and its clock or monitor


@dataclass(frozen=True, slots=True)
class Cgroup:
    """directories: one per hierarchy (a single one on version 2). enforced: "memory", "pids", "cpus" where set."""

    directories: tuple[Path, ...]
    enforced: frozenset[str]
    events: Mapping[str, str]

    @property
    def procs(self) -> list[Path]:
        return [directory / "cgroup.procs" for directory in self.directories]

    def remove(self) -> None:
        """Delete the group; its processes must be dead or dying."""
        remove(self.directories)


def remove(directories: tuple[Path, ...], *, patience_s: float = 2.0) -> None:
    """Delete groups whose processes are dying; one that stays busy is left to the next reap."""
    deadline = time.monotonic() + patience_s
    for directory in directories:
        while directory.exists():
            try:
                directory.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    return
                time.sleep(0.01)


@contextlib.contextmanager
def without_cpu_limit(directories: Iterable[Path]) -> Iterator[None]:
    """Lifts the CPU limit of these groups for a while: dying takes CPU time too.

    Hundreds of processes in a fight for memory run up a debt against the limit, and until it is paid neither those that
    are killed nor PID 1 get to run: minutes, at times.
    """
    before = [(file, value) for directory in directories for file, value in _lift_cpu_limit(directory)]
    try:
        yield
    finally:
        for file, value in before:
            with contextlib.suppress(OSError):  # the group is gone, as it should
                _write(file, value)


def _lift_cpu_limit(directory: Path) -> Iterator[tuple[Path, str]]:
    for name, none in (("cpu.cfs_quota_us", "-1"), ("cpu.max", "max")):
        with contextlib.suppress(OSError):  # another hierarchy, or not ours to write
            yield directory / name, _exchange(directory / name, none)


@contextlib.contextmanager
def without_forks(directory: Path) -> Iterator[bool]:
    """No process of this group can make another one for a while; False where that cannot be had."""
    try:
        before = _exchange(directory / "pids.max", "0")
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        with contextlib.suppress(OSError):
            _write(directory / "pids.max", before)


def _exchange(file: Path, value: str) -> str:
    before = file.read_text()
    _write(file, value)
    return before


async def until_quiet(directories: Sequence[Path]) -> None:
    """Waits until no more than PID 1 and its monitor are left in these groups, for some seconds at most."""
    for _ in range(_LOOKS):
        if processes(directories) <= _AT_REST:
            return
        await asyncio.sleep(_PAUSE_S)


def processes(directories: Iterable[Path]) -> int:
    """How many processes these groups have; all have the same ones."""
    for directory in directories:
        if found := members(directory):
            return len(found)
    return 0


def members(directory: Path) -> list[int]:
    """The processes of this group, as this machine numbers them."""
    try:
        return [int(pid) for pid in (directory / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def oom_kills(directories: Iterable[Path]) -> int | None:
    """How many processes of these groups the memory limit has killed so far; None where none of them counts it."""
    for directory in directories:
        for name in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(OSError):
                for line in (directory / name).read_text().splitlines():
                    key, _, value = line.partition(" ")
                    if key == "oom_kill":
                        return int(value)
    return None


def create(name: str, limits: Limits) -> Cgroup | None:
    """A group with these limits, None where no hierarchy lets us make one."""
    made: list[Path] = []
    enforced: set[str] = set()
    events: dict[str, str] = {}
    for parent, controllers in _parents():
        directory = parent / PARENT / name
        try:
            directory.parent.mkdir(exist_ok=True)
            if "cgroup2" in controllers:
                _delegate(directory.parent)
            directory.mkdir()
        except OSError:
            continue
        applied = _apply(directory, controllers, limits)
        if not applied:
            with contextlib.suppress(OSError):
                directory.rmdir()
                directory.parent.rmdir()
            continue
        made.append(directory)
        enforced |= applied
        if "memory" in applied:
            inside = "/sys/fs/cgroup" if "cgroup2" in controllers else "/sys/fs/cgroup/memory"
            events[str(directory)] = inside
    return Cgroup(tuple(made), frozenset(enforced), events) if made else None


def _apply(directory: Path, controllers: set[str], limits: Limits) -> set[str]:
    memory = str(limits.memory_mb << 20)
    quota = str(int(limits.cpus * 100_000))
    applied: set[str] = set()
    if "cgroup2" in controllers:
        settings = {"memory": "memory.max", "pids": "pids.max", "cpus": "cpu.max"}
        values = {"memory": memory, "pids": str(limits.pids), "cpus": f"{quota} 100000"}
        extra = [("memory.swap.max", "0"), ("memory.oom.group", "0")]
    else:
        settings = {"memory": "memory.limit_in_bytes", "pids": "pids.max", "cpus": "cpu.cfs_quota_us"}
        values = {"memory": memory, "pids": str(limits.pids), "cpus": quota}
        extra = [("memory.memsw.limit_in_bytes", memory), ("memory.swappiness", "0")]
    for resource, filename in settings.items():
        with contextlib.suppress(OSError):
            _write(directory / filename, values[resource])
            applied.add(resource)
    for filename, value in extra:
        with contextlib.suppress(OSError):
            _write(directory / filename, value)
    return applied


def _write(path: Path, value: str) -> None:
    if not path.exists():  # opening for writing would try to make it
        raise FileNotFoundError(path)
    path.write_text(value)


def _delegate(directory: Path) -> None:
    """Turn the controllers on for the children of `directory`, and for `directory` itself in its parent."""
    for level in (directory.parent, directory):
        for controller in ("memory", "pids", "cpu"):
            with contextlib.suppress(OSError):
                _write(level / "cgroup.subtree_control", f"+{controller}")


def _parents() -> list[tuple[Path, set[str]]]:
    """Where groups can be made: (directory, controllers of that hierarchy); "cgroup2" marks version 2."""
    own: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        own |= dict.fromkeys(names.split(",") if names else ["cgroup2"], path)
    found: list[tuple[Path, set[str]]] = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, options, *_ = line.split()
        if kind == "cgroup":
            controllers = {"memory", "pids", "cpu"} & set(options.split(","))
            if controllers:
                found.append((_below(Path(mount), own.get(next(iter(controllers)), "/")), controllers))
        elif kind == "cgroup2":
            parent = Path(mount) if os.geteuid() == 0 else _below(Path(mount), own.get("cgroup2", "/")).parent
            found.append((parent, {"cgroup2"}))
    return found


def _below(mount: Path, path: str) -> Path:
    """Our own group; the root of the mount where a namespace hides the real path."""
    own = mount / path.lstrip("/")
    return own if own.is_dir() else mount
