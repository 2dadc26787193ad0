"""Forking a sandbox at a step: snapshot and a start from it, for a 200 MB repository of which an agent changed 20 files.

Per backend: the time of `snapshot`, and of `start` from it until a first command has run there (`restore`). The target is half a
second each. The anchor does the same with the command line, `docker commit` and `docker run`, in turn; `ratio` compares the sums
for the Docker backend.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from uuid import uuid4

from rich.console import Console
from rich.table import Table

from agentgym.errors import AgentGymError
from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import ImageSpec, Limits

ROUNDS = 7
LIMITS = Limits(memory_mb=512, pids=128)
DOCKERFILE = """
FROM python:3.11
WORKDIR /testbed
RUN python3 -c "import os; [open('f%04d' % i, 'wb').write(os.urandom(102400)) for i in range(2000)]"
"""
CHANGE = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo {number} >> f00$((i + 10)); done"
CHECK = "tail -c 2 f0015"


async def ours(name: str) -> tuple[list[float], list[float], list[float]]:
    """Seconds of snapshot and restore, and of the anchor's sum (Docker only)."""
    backend = await open_backend(name, owner="bench-snapshot")
    snapshots: list[float] = []
    restores: list[float] = []
    anchor: list[float] = []
    try:
        with tempfile.TemporaryDirectory() as context:
            (Path(context) / "Dockerfile").write_text(DOCKERFILE)
            spec = ImageSpec("bench-snapshot", "sha256:bench-snapshot-1", context=Path(context))
            image = await backend.ensure_image(spec)
        sandbox = await backend.start(image, LIMITS)
        for number in range(ROUNDS):
            await sandbox.exec(CHANGE.format(number=number))
            began = time.perf_counter()
            frozen = await sandbox.snapshot()
            snapshots.append(time.perf_counter() - began)
            began = time.perf_counter()
            copy = await backend.start(frozen, LIMITS)
            seen = await copy.exec(CHECK)
            restores.append(time.perf_counter() - began)
            assert seen.text == f"{number}\n", seen
            await copy.close()
            if name == "docker":
                anchor.append(by_command_line(sandbox.id))
        return snapshots, restores, anchor
    finally:
        await backend.close()


def by_command_line(container: str) -> float:
    tag = f"bench-snapshot:{uuid4().hex[:12]}"
    began = time.perf_counter()
    subprocess.run(["docker", "commit", container, tag], check=True, capture_output=True)
    run = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "sh", "-w", "/testbed", tag, "-c", CHECK]
    subprocess.run(run, check=True, capture_output=True)
    seconds = time.perf_counter() - began
    subprocess.run(["docker", "rmi", "-f", tag], check=True, capture_output=True)
    return seconds


def main() -> int:
    table = Table(title="forking a sandbox with a 200 MB repository, p50 in milliseconds")
    for column in ("backend", "snapshot", "restore"):
        table.add_column(column, justify="right" if column != "backend" else "left")
    report: dict[str, float | str] = {"bench": "snapshot", "unit": "ms"}
    try:
        for name in ("docker", "local"):
            snapshots, restores, anchor = asyncio.run(ours(name))
            p50 = [1e3 * statistics.median(values) for values in (snapshots, restores)]
            table.add_row(name, *(f"{value:.0f}" for value in p50))
            report |= {f"{name}_snapshot": round(p50[0], 1), f"{name}_restore": round(p50[1], 1)}
            if anchor:
                theirs = 1e3 * statistics.median(anchor)
                report |= {"ours": round(sum(p50), 1), "anchor": round(theirs, 1), "ratio": round(theirs / sum(p50), 2)}
                report |= {"anchor_name": "docker commit + docker run"}
    except AgentGymError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    Console(stderr=True).print(table)
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
