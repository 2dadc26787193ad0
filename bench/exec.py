"""One bash call in a live Docker sandbox, p50: ours against mini-swe-agent's Docker environment.

Both run `true` in a container of the same image, each through its public call and with its defaults, in alternating
blocks of one run, so that what else the machine does falls on both. `ratio` is theirs over ours: how many times faster.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from anchors import Anchor, environment
from rich.console import Console
from rich.table import Table

from agentgym.errors import AgentGymError
from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import ImageSpec, Sandbox

BLOCKS = 10
OURS_PER_BLOCK = 50
ANCHOR_PER_BLOCK = 5
COMMAND = "true"

MINI_SWE_AGENT = """
os.environ["MSWEA_SILENT_STARTUP"] = "1"
os.environ["MSWEA_GLOBAL_CONFIG_DIR"] = sys.argv[3]
from minisweagent.environments.docker import DockerEnvironment
environment = DockerEnvironment(image=sys.argv[1], cwd=sys.argv[2])
answer("ready")
for request in requests():
    times = []
    for _ in range(request["calls"]):
        began = time.perf_counter()
        result = environment.execute({"command": request["command"]})
        times.append(time.perf_counter() - began)
        assert result["returncode"] == 0, result
    answer(times)
os.system(f"docker rm -f {environment.container_id} >/dev/null")
environment.container_id = None
"""


async def ours(sandbox: Sandbox, calls: int) -> list[float]:
    times: list[float] = []
    for _ in range(calls):
        began = time.perf_counter()
        result = await sandbox.exec(COMMAND)
        times.append(time.perf_counter() - began)
        assert result.exit_code == 0, result
    return times


async def measure() -> tuple[list[float], list[float]]:
    backend = await open_backend("docker", owner="bench-exec")
    try:
        with tempfile.TemporaryDirectory() as context:
            (Path(context) / "Dockerfile").write_text("FROM debian:bookworm\nWORKDIR /testbed\n")
            spec = ImageSpec(name="bench-exec", digest="sha256:bench-exec-1", context=Path(context))
            image = await backend.ensure_image(spec)
        python = environment(
            "mini-swe-agent",
            ["pydantic>=2", "python-dotenv", "platformdirs", "rich"],
            without_dependencies=["mini-swe-agent>=2.4,<3"],
        )
        sandbox = await backend.start(image)
        mine: list[float] = []
        theirs: list[float] = []
        with Anchor(python, MINI_SWE_AGENT, image.ref, spec.workdir, str(python.parent)) as anchor:
            await ours(sandbox, 10)  # both warm
            anchor.ask({"command": COMMAND, "calls": 2})
            for _ in range(BLOCKS):
                mine += await ours(sandbox, OURS_PER_BLOCK)
                theirs += anchor.ask({"command": COMMAND, "calls": ANCHOR_PER_BLOCK})
        return mine, theirs
    finally:
        await backend.close()


def main() -> int:
    try:
        mine, theirs = asyncio.run(measure())
    except AgentGymError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    table = Table(title=f"one `{COMMAND}` in a live Docker sandbox, milliseconds")
    for column in ("", "calls", "p50", "p90", "max"):
        table.add_column(column, justify="right" if column else "left")
    for name, times in (("agentgym", mine), ("mini-swe-agent DockerEnvironment", theirs)):
        deciles = statistics.quantiles(times, n=10)
        table.add_row(name, str(len(times)), *(f"{1e3 * t:.2f}" for t in (statistics.median(times), deciles[8], max(times))))
    Console(stderr=True).print(table)
    p50, anchor = 1e3 * statistics.median(mine), 1e3 * statistics.median(theirs)
    report = {
        "bench": "exec",
        "ours": round(p50, 3),
        "anchor": round(anchor, 3),
        "anchor_name": "mini-swe-agent DockerEnvironment",
        "unit": "ms",
        "ratio": round(anchor / p50, 2),
        "calls": len(mine),
        "anchor_calls": len(theirs),
    }
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
