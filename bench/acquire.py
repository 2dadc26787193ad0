"""How long until a fresh Docker sandbox runs its first command: ours from the warm pool against `docker run`.

Both end with `true` having run in a container of the same image that nobody has used, with the same limits; they take
turns in one run. Ours is timed when the shelf is filled again (`warm`); what filling it costs is shown as `cold`: the
same call with nothing on the shelf. `ratio` is theirs over ours, `ratio_cold` theirs over a cold start.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from agentgym.errors import AgentGymError
from agentgym.sandbox import ManagedBackend, open_backend
from agentgym.sandbox.protocol import Image, ImageSpec, Limits

ROUNDS = 30
LIMITS = Limits(memory_mb=256, pids=128)


async def acquire(backend: ManagedBackend, image: Image, limits: Limits) -> float:
    """Seconds from asking to the first command's end; the sandbox is closed, and the shelf refilled, untimed."""
    began = time.perf_counter()
    sandbox = await backend.start(image, limits)
    result = await sandbox.exec("true")
    seconds = time.perf_counter() - began
    assert result.exit_code == 0, result
    await sandbox.close()
    return seconds


async def settled(backend: ManagedBackend) -> None:
    async with asyncio.timeout(60):
        while backend.metrics().idle < 1 or backend.metrics().starting:  # noqa: ASYNC110 - from outside
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)  # the engine is still removing the last one


def docker_run(image: Image) -> float:
    command = ["docker", "run", "--rm", "--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    command += ["--memory", "256m", "--memory-swap", "256m", "--cpus", "1", "--pids-limit", "128", image.ref, "true"]
    began = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - began


async def measure() -> dict[str, list[float]]:
    backend = await open_backend("docker", owner="bench-acquire")
    times: dict[str, list[float]] = {"warm": [], "cold": [], "docker run": []}
    try:
        with tempfile.TemporaryDirectory() as context:
            (Path(context) / "Dockerfile").write_text("FROM debian:bookworm\nWORKDIR /testbed\n")
            spec = ImageSpec(name="bench-exec", digest="sha256:bench-exec-1", context=Path(context))
            image = await backend.ensure_image(spec)
        for _ in range(2):
            await acquire(backend, image, LIMITS)
        for index in range(ROUNDS):
            await settled(backend)
            before = backend.metrics().warm
            times["warm"].append(await acquire(backend, image, LIMITS))
            assert backend.metrics().warm == before + 1, "the shelf was empty"
            await settled(backend)
            times["docker run"].append(docker_run(image))
            if index % 3 == 0:
                other = replace(LIMITS, lifetime_s=LIMITS.lifetime_s + index + 1)  # nothing is warm for these limits
                times["cold"].append(await acquire(backend, image, other))
        return times
    finally:
        await backend.close()


def main() -> int:
    try:
        times = asyncio.run(measure())
    except AgentGymError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    table = Table(title="a fresh Docker sandbox until its first command has ended, milliseconds")
    for column in ("", "times", "p50", "p90", "max"):
        table.add_column(column, justify="right" if column else "left")
    for name, values in times.items():
        deciles = statistics.quantiles(values, n=10)
        table.add_row(
            name, str(len(values)), *(f"{1e3 * t:.1f}" for t in (statistics.median(values), deciles[8], max(values)))
        )
    Console(stderr=True).print(table)
    warm, cold, anchor = (1e3 * statistics.median(times[name]) for name in ("warm", "cold", "docker run"))
    report = {
        "bench": "acquire",
        "ours": round(warm, 2),
        "anchor": round(anchor, 1),
        "anchor_name": "docker run --rm IMAGE true",
        "unit": "ms",
        "ratio": round(anchor / warm, 1),
        "cold": round(cold, 1),
        "ratio_cold": round(anchor / cold, 2),
    }
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
