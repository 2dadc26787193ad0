"""A program ends with its group, when it is told to and when whoever started it is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from harness.gateway.program import Program

COMMAND = "sleep 300 & echo $$ $! > pids; mv pids ready; wait"
STARTER = """
import asyncio, os, pathlib, sys
from harness.gateway.program import Program
async def main():
    with open(os.devnull, "wb") as output:
        await Program.start(sys.argv[2], folder=pathlib.Path(sys.argv[1]), env=os.environ, output=output)
        await asyncio.sleep(300)
asyncio.run(main())
"""


def pids(folder: Path) -> list[int]:
    deadline = time.monotonic() + 60
    while not (folder / "ready").exists():
        assert time.monotonic() < deadline, "the program did not start"
        time.sleep(0.05)
    return [int(word) for word in (folder / "ready").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_until_gone(found: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(map(alive, found)):
        assert time.monotonic() < deadline, f"still there: {[pid for pid in found if alive(pid)]}"
        time.sleep(0.05)


def test_a_killed_starter_takes_the_program_and_its_children_with_it(tmp_path: Path) -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(tmp_path), COMMAND])
    try:
        found = pids(tmp_path)
        assert all(map(alive, found))
    finally:
        starter.send_signal(signal.SIGKILL)
        starter.wait()
    wait_until_gone(found)


async def test_it_hears_nothing_says_how_it_ended_and_leaves_nothing(tmp_path: Path) -> None:
    """Also where it waits for its children: the watcher is none of them."""
    command = "cat; sleep 300 & echo $! > pids; mv pids ready; python3 -c 'import os; os.wait()' 2> waited; exit 7"
    with (tmp_path / "log").open("wb") as output:
        program = await Program.start(command, folder=tmp_path, env=os.environ, output=output)
        assert await asyncio.wait_for(program.process.wait(), 60) == 7
        found = pids(tmp_path)
        assert all(map(alive, found))
        await program.end()
    assert "ChildProcessError" in (tmp_path / "waited").read_text()
    wait_until_gone(found)
