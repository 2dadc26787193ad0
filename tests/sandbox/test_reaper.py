"""Nothing is left behind: leases judged from labels alone, also after SIGKILL of the owner."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.sandbox.labels import PREFIX, Owner, abandoned, lease
from agentgym.sandbox.protocol import Image, Sandbox, SandboxBackend

module_loop = pytest.mark.asyncio(loop_scope="module")

OWNER_PROGRAM = """
import asyncio, sys
from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import Image, ImageSpec, Limits

async def main():
    backend = await open_backend(sys.argv[1])
    image = Image(ImageSpec("contract-tests", "", workdir="/testbed"), sys.argv[2], sys.argv[3], sys.argv[1])
    for _ in range(2):
        sandbox = await backend.start(image, Limits(memory_mb=256, pids=64))
        await sandbox.exec("sleep " + sys.argv[4] + " &")
    await sandbox.snapshot()
    print("ready", flush=True)
    await sandbox.exec("sleep " + sys.argv[4], timeout=1000)

asyncio.run(main())
"""


def running(argument: str) -> int:
    """How many processes of this machine have exactly this argument: the sandboxes of a local engine are visible in /proc."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            count += path.read_bytes().split(b"\0")[:2] == [b"sleep", argument.encode()]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return count


async def owner_that_is_killed(backend: SandboxBackend, image: Image, mark: str) -> int:
    """Starts a process that owns two sandboxes and a snapshot, reaps once while it lives, then kills it. Returns the count."""
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER_PROGRAM, backend.name, image.ref, image.digest, mark, stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    assert await owner.stdout.readline() == b"ready\n"
    removed = await backend.reap()
    owner.kill()
    await owner.wait()
    return removed


@module_loop
async def test_what_a_killed_owner_left_is_removed_and_what_lives_is_not(
    backend: SandboxBackend, image: Image, sandbox: Sandbox
):
    await backend.reap()
    mark = f"9{os.getpid()}{time.time_ns() % 1000}"
    assert await owner_that_is_killed(backend, image, mark) == 0, "its owner lived"
    assert await backend.reap() >= 3, "two sandboxes and a snapshot"
    assert running(mark) == 0
    assert (await sandbox.exec("echo alive")).output == b"alive\n"


@module_loop
async def test_several_reapers_at_once_do_not_trip_over_each_other(backend: SandboxBackend, image: Image):
    mark = f"8{os.getpid()}{time.time_ns() % 1000}"
    await owner_that_is_killed(backend, image, mark)
    await asyncio.gather(*(backend.reap() for _ in range(4)))
    assert running(mark) == 0


def dead_pid() -> tuple[int, int]:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid, 1


def test_a_lease_is_judged_by_owner_and_expiry():
    me = Owner.current("me")
    pid, started = dead_pid()
    cases = [
        (lease("sandbox", me, 60), None),
        (lease("sandbox", me, -5), "run out"),
        (lease("sandbox", replace(me, pid=pid, started=started), 60), "is gone"),
        (lease("sandbox", replace(me, started=me.started + 1), 60), "is gone"),  # the PID was reused
        (lease("sandbox", replace(me, boot="an earlier one"), 60), "is gone"),
        (lease("sandbox", replace(me, host="elsewhere", pid=pid), 60), None),
        (lease("sandbox", replace(me, host="elsewhere"), -5), "run out"),
        (lease("sandbox", replace(me, pid_namespace="pid:[1]", pid=pid), 60), None),
        (lease("image", replace(me, pid=pid, started=started), -5), None),
        ({}, None),
        ({"agentgym.kind": "sandbox"}, None),
        ({**lease("sandbox", me, -5), PREFIX + "expires": "soon"}, None),
    ]
    for labels, expected in cases:
        reason = abandoned(labels)
        assert reason is None if expected is None else expected in (reason or ""), labels


def test_a_zombie_owner_is_dead():
    process = subprocess.Popen(["true"])
    time.sleep(0.3)  # not waited for: a zombie
    stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    owner = replace(Owner.current(), pid=process.pid, started=int(stat[19]))
    assert stat[0] == "Z"
    assert owner.alive() is False
    process.wait()
