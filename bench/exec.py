"""One bash call in a live Docker sandbox, p50: ours against mini-swe-agent's Docker environment and SWE-ReX's.

All run `true` in a container of one image, each through its public call and with its defaults, in alternating blocks of
one run, so that what else the machine does falls on all. mini-swe-agent starts `docker exec` for each call; SWE-ReX speaks HTTP
to a server that it starts inside the container (so it has to be in the image) and types the command into a bash it keeps.
`ratio` is mini-swe-agent's time over ours, `ratio_swerex` SWE-ReX's: how many times faster.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
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
SWEREX = "swe-rex==1.4.0"

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

SWE_REX = """
import asyncio
from swerex.deployment.docker import DockerDeployment
from swerex.runtime.abstract import BashAction, CreateBashSessionRequest

async def main():
    deployment = DockerDeployment(image=sys.argv[1], pull="never")
    await deployment.start()
    try:
        await deployment.runtime.create_session(CreateBashSessionRequest())
        answer("ready")
        for request in requests():
            times = []
            for _ in range(request["calls"]):
                began = time.perf_counter()
                result = await deployment.runtime.run_in_session(BashAction(command=request["command"]))
                times.append(time.perf_counter() - began)
                assert result.exit_code == 0, result
            answer(times)
    finally:
        await deployment.stop()

asyncio.run(main())
"""

DOCKERFILE = f"FROM debian:bookworm\nRUN pip install --no-cache-dir {SWEREX}\nWORKDIR /testbed\n"


async def ours(sandbox: Sandbox, calls: int) -> list[float]:
    times: list[float] = []
    for _ in range(calls):
        began = time.perf_counter()
        result = await sandbox.exec(COMMAND)
        times.append(time.perf_counter() - began)
        assert result.exit_code == 0, result
    return times


async def measure() -> dict[str, list[float]]:
    backend = await open_backend("docker", owner="bench-exec")
    try:
        with tempfile.TemporaryDirectory() as context:
            (Path(context) / "Dockerfile").write_text(DOCKERFILE)
            spec = ImageSpec(name="bench-exec", digest="sha256:bench-exec-2", context=Path(context))
            image = await backend.ensure_image(spec)
        mini = environment(
            "mini-swe-agent",
            ["pydantic>=2", "python-dotenv", "platformdirs", "rich"],
            without_dependencies=["mini-swe-agent>=2.4,<3"],
        )
        rex = environment("swe-rex", [SWEREX, "aiohttp"])
        sandbox = await backend.start(image)
        times: dict[str, list[float]] = {"agentgym": []}
        with ExitStack() as stack:
            anchors = {
                "mini-swe-agent DockerEnvironment": Anchor(
                    mini, MINI_SWE_AGENT, image.ref, spec.workdir, str(mini.parent)
                ),
                "SWE-ReX DockerDeployment": Anchor(rex, SWE_REX, image.ref),
            }
            await ours(sandbox, 10)  # all warm
            for name, anchor in anchors.items():
                stack.enter_context(anchor)
                anchor.ask({"command": COMMAND, "calls": 2})
                times[name] = []
            for _ in range(BLOCKS):
                times["agentgym"] += await ours(sandbox, OURS_PER_BLOCK)
                for name, anchor in anchors.items():
                    times[name] += anchor.ask({"command": COMMAND, "calls": ANCHOR_PER_BLOCK})
        return times
    finally:
        await backend.close()


def main() -> int:
    try:
        times = asyncio.run(measure())
    except AgentGymError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    table = Table(title=f"one `{COMMAND}` in a live Docker sandbox, milliseconds")
    for column in ("", "calls", "p50", "p90", "max"):
        table.add_column(column, justify="right" if column else "left")
    for name, values in times.items():
        deciles = statistics.quantiles(values, n=10)
        table.add_row(
            name, str(len(values)), *(f"{1e3 * t:.2f}" for t in (statistics.median(values), deciles[8], max(values)))
        )
    Console(stderr=True).print(table)
    p50, mini, rex = (1e3 * statistics.median(values) for values in times.values())
    report = {
        "bench": "exec",
        "ours": round(p50, 3),
        "anchor": round(mini, 3),
        "anchor_name": "mini-swe-agent DockerEnvironment",
        "anchor_swerex": round(rex, 3),
        "unit": "ms",
        "ratio": round(mini / p50, 2),
        "ratio_swerex": round(rex / p50, 2),
        "calls": len(times["agentgym"]),
        "anchor_calls": BLOCKS * ANCHOR_PER_BLOCK,
    }
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
