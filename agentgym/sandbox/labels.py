"""Who owns a sandbox and until when, in a form any later process can judge without memory of its own.

Everything a backend makes (containers, snapshots, builds, directories) carries these labels. A thing is *abandoned*
when its lease has run out, or when its owner is known to be dead: same machine and boot, same PID namespace, and no
process with that PID and start time (a PID alone is reused); or the same machine has booted since. An owner on another
machine or in another PID namespace cannot be judged; then only the expiry counts.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PREFIX = "agentgym."
KIND = PREFIX + "kind"

Kind = Literal["sandbox", "snapshot", "build", "image"]
"""image: a cached image, which no reaper removes; snapshot and build: images that go with their owner."""


@dataclass(frozen=True, slots=True)
class Owner:
    """One process, named so that a later process on the machine can tell whether it still runs.

    started: its start time in clock ticks since boot (field 22 of /proc/PID/stat).
    """

    host: str
    boot: str
    pid_namespace: str
    pid: int
    started: int
    name: str = ""

    @classmethod
    def current(cls, name: str = "") -> Owner:
        pid = os.getpid()
        return cls(socket.gethostname(), _boot(), _pid_namespace(), pid, _started(pid) or 0, name)

    def alive(self) -> bool | None:
        """None: cannot be judged from here."""
        if self.host != socket.gethostname():
            return None
        if self.boot != _boot():
            return False
        if self.pid_namespace != _pid_namespace():
            return None
        return _started(self.pid) == self.started


def lease(kind: Kind, owner: Owner, lifetime_s: float) -> dict[str, str]:
    """The labels of a thing made now."""
    now = time.time()
    return {
        KIND: kind,
        PREFIX + "host": owner.host,
        PREFIX + "boot": owner.boot,
        PREFIX + "pid_namespace": owner.pid_namespace,
        PREFIX + "pid": str(owner.pid),
        PREFIX + "pid_started": str(owner.started),
        PREFIX + "owner": owner.name,
        PREFIX + "created": f"{now:.0f}",
        PREFIX + "expires": f"{now + lifetime_s:.0f}",
    }


def abandoned(labels: Mapping[str, str]) -> str | None:
    """Why the thing with these labels may be removed, or None where it may not. Things without our labels never may."""
    if KIND not in labels or labels[KIND] == "image":
        return None
    try:
        expires = float(labels[PREFIX + "expires"])
        owner = Owner(
            host=labels[PREFIX + "host"],
            boot=labels[PREFIX + "boot"],
            pid_namespace=labels[PREFIX + "pid_namespace"],
            pid=int(labels[PREFIX + "pid"]),
            started=int(labels[PREFIX + "pid_started"]),
        )
    except (KeyError, ValueError):
        return None  # not a lease of ours, whatever it says
    if time.time() > expires:
        return "its lease has run out"
    if owner.alive() is False:
        return f"its owner, process {owner.pid}, is gone"
    return None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _pid_namespace() -> str:
    return os.readlink("/proc/self/ns/pid")


def _started(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
