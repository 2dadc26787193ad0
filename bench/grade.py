"""Gradings per minute, each with the start of a fresh sandbox: ours against what else grades the same task here.

The task is the tutorial with its reference solution. The anchor is Harbor's verifier, where a `harbor` command answers (on
PATH, or the command line in AGENTGYM_HARBOR); else `docker run` of the same image, in which a shell applies the same patch,
lays the same hidden tests and runs them with plain pytest. Blocks of both alternate in one run, with equally many at once.
`ratio` is our rate over the anchor's; `docker run` one after the other, as a script would do it, is shown beside it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from agentgym.errors import AgentGymError
from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import Image, SandboxBackend
from agentgym.tasks import Task, load_task
from agentgym.verify import Patch, grade

TASK = Path(__file__).resolve().parents[1] / "environments/tutorial-duration"
BLOCKS = 4
PER_BLOCK = 8
AT_ONCE = 4
HARBOR = shlex.split(os.environ.get("AGENTGYM_HARBOR", "harbor"))


async def rate(one: Callable[[], Awaitable[None]], *, at_once: int) -> float:
    """Gradings per minute over one block."""
    gate = asyncio.Semaphore(at_once)

    async def guarded() -> None:
        async with gate:
            await one()

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(PER_BLOCK):
            group.create_task(guarded())
    return PER_BLOCK * 60.0 / (time.perf_counter() - began)


async def run(command: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {output.decode(errors='replace')[-800:]}")


def docker_run(task: Task, image: Image) -> Callable[[], Awaitable[None]]:
    """The shortest honest script: the same image and limits, the same patch, tests and pytest options."""
    tests = shlex.join(
        [*task.test_command, *sorted({test.partition("::")[0] for test in task.fail_to_pass + task.pass_to_pass})]
    )
    script = f"git apply /solution/gold.patch && rm -rf tests && cp -R /hidden/. . && {tests}"
    command = [
        "docker", "run", "--rm", "--network", "none", "--memory", f"{task.limits.memory_mb}m", "--cpus", str(task.limits.cpus),
        "--volume", f"{task.root}/tests/hidden:/hidden:ro", "--volume", f"{task.root}/solution:/solution:ro",
        "--workdir", task.workdir, image.ref, "sh", "-c", script,
    ]  # fmt: skip
    return lambda: run(command)


async def harbor_rate(task: Task) -> float | None:
    """Trials per minute of the harbor CLI with its oracle agent, image build left out; None where it does not run here."""
    if shutil.which(HARBOR[0]) is None:
        return None
    with tempfile.TemporaryDirectory(prefix="bench-grade-") as scratch:
        copy = Path(shutil.copytree(task.root, Path(scratch, "task")))
        manifest = copy / "task.toml"
        # Harbor enforces "no network" by a helper image that it builds from a registry; the tests use no network anyway.
        manifest.write_text(manifest.read_text().replace("allow_internet = false", "allow_internet = true"))
        options = ["run", "-p", str(copy), "-a", "oracle", "-n", str(AT_ONCE), "--jobs-dir", f"{scratch}/jobs"]
        try:
            await run([*HARBOR, *options, "-k", "1"])  # builds the image
            began = time.perf_counter()
            await run([*HARBOR, *options, "-k", str(PER_BLOCK)])
        except RuntimeError as error:
            print(f"no anchor: {error}", file=sys.stderr)
            return None
        seconds = time.perf_counter() - began
        results = [json.loads(file.read_text()) for file in Path(scratch, "jobs").glob("*/*/result.json")]  # noqa: ASYNC240
        solved = [
            result
            for result in results
            if (result.get("verifier_result") or {}).get("rewards", {}).get("reward") == 1.0
        ]
        assert len(solved) == PER_BLOCK + 1, f"harbor's oracle solved {len(solved)} of {PER_BLOCK + 1} trials"
        return PER_BLOCK * 60.0 / seconds


async def measure(backend: SandboxBackend) -> dict[str, list[float]]:
    task = load_task(TASK)
    image = await backend.ensure_image(task.image)
    patch = Patch(task.material.gold_patch())

    async def ours() -> None:
        result = await grade(task, patch, backend, image=image)
        assert result.reward == 1.0, result

    theirs = docker_run(task, image)
    await asyncio.gather(ours(), theirs())  # both warm
    rates: dict[str, list[float]] = {"agentgym": [], "docker run": [], "docker run, one by one": []}
    for _ in range(BLOCKS):
        rates["agentgym"].append(await rate(ours, at_once=AT_ONCE))
        rates["docker run"].append(await rate(theirs, at_once=AT_ONCE))
        rates["docker run, one by one"].append(await rate(theirs, at_once=1))
    harbor = await harbor_rate(task)
    if harbor is not None:
        rates["harbor"] = [harbor]
    return rates


async def main() -> int:
    try:
        backend = await open_backend("docker", owner="bench-grade")
    except AgentGymError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    try:
        rates = await measure(backend)
    finally:
        await backend.close()
    table = Table(title=f"gradings per minute of {TASK.name}, sandbox start included, {AT_ONCE} at once")
    for column in ("", "median", "lowest", "highest"):
        table.add_column(column, justify="right" if column else "left")
    for name, found in rates.items():
        table.add_row(name, *(f"{value:.1f}" for value in (statistics.median(found), min(found), max(found))))
    Console(stderr=True).print(table)
    anchor = "harbor" if "harbor" in rates else "docker run"
    mine, theirs = statistics.median(rates["agentgym"]), statistics.median(rates[anchor])
    report = {
        "bench": "grade",
        "ours": round(mine, 2),
        "anchor": round(theirs, 2),
        "anchor_name": "harbor CLI, oracle agent" if anchor == "harbor" else "docker run + pytest",
        "unit": "gradings/min",
        "ratio": round(mine / theirs, 2),
        "ratio_one_by_one": round(mine / statistics.median(rates["docker run, one by one"]), 2),
        "at_once": AT_ONCE,
    }
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
