"""Gradings per minute, each with the start of a fresh sandbox: ours against what else grades the same task here.

The task is the tutorial with its reference solution. The anchor is Harbor's verifier, where a `harbor` command answers (on
PATH, or the command line in AGENTGYM_HARBOR); else the same work by the engine's own client, step by step as SWE-bench's harness
does it: a fresh container without network, the patch copied in and applied, the old tests removed and the hidden ones copied in,
the tests run, their JUnit report copied out and read, the container removed. `ratio` is our rate over the anchor's.

Beside it stands one shell command under `docker run`, with tests and patch mounted from this machine: the least that can be done.
It works on the engine's own machine only, believes an exit code that the tested code can choose, and has no limit for a test that
hangs, so it is a bound and not an anchor. Blocks of all alternate in one run, with equally many at once.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import shlex
import shutil
import statistics
import sys
import tarfile
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import docker
from rich.console import Console
from rich.table import Table

from agentgym.errors import AgentGymError
from agentgym.sandbox import open_backend
from agentgym.sandbox.finish import AGENT_UID
from agentgym.sandbox.protocol import Image, SandboxBackend
from agentgym.tasks import Task, load_task
from agentgym.verify import Patch, grade
from agentgym.verify.reports import parse_junit

TASK = Path(__file__).resolve().parents[1] / "environments/tutorial-duration"
BLOCKS = 4
PER_BLOCK = 8
AT_ONCE = 4
STEPS = "docker, step by step"
ONE_COMMAND = "docker run, one command"
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


def step_by_step(task: Task, image: Image) -> Callable[[], Awaitable[None]]:
    """The same work through the engine's client. Many at once, each in a thread of its own."""
    client = docker.from_env()
    hidden, patch = packed(task.root / "tests/hidden", ""), packed(task.root / "solution/gold.patch", "gold.patch")
    files = sorted({test.partition("::")[0] for test in task.fail_to_pass + task.pass_to_pass})

    def work() -> None:
        container = client.containers.create(
            image.ref, ["sleep", "600"], network_mode="none", mem_limit=f"{task.limits.memory_mb}m",
            nano_cpus=int(task.limits.cpus * 1e9), working_dir=task.workdir,
        )  # fmt: skip
        try:
            container.start()
            container.put_archive("/tmp", patch)
            for command in ("git apply /tmp/gold.patch", "rm -rf tests"):
                code, output = container.exec_run(command)
                assert code == 0, output
            container.put_archive(task.workdir, hidden)
            container.exec_run([*task.test_command, "--junitxml=/tmp/report.xml", *files])
            archive = io.BytesIO(b"".join(container.get_archive("/tmp/report.xml")[0]))
            with tarfile.open(fileobj=archive) as tar:
                member = tar.extractfile("report.xml")
                report = parse_junit(member.read() if member else b"")
            assert len(report.verdicts) >= len(task.fail_to_pass + task.pass_to_pass)
            assert set(report.verdicts.values()) == {"passed"}
        finally:
            container.remove(force=True)

    return lambda: asyncio.to_thread(work)


def packed(source: Path, name: str) -> bytes:
    """A tar archive of a file, or of what lies in a folder, for the image's user."""

    def owned(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = AGENT_UID
        return member

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(source, name or ".", filter=owned)
    return buffer.getvalue()


def docker_run(task: Task, image: Image) -> Callable[[], Awaitable[None]]:
    """The shortest script: the same image and limits, the same patch, tests and pytest options."""
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

    ways = {"agentgym": ours, STEPS: step_by_step(task, image), ONE_COMMAND: docker_run(task, image)}
    await asyncio.gather(*(way() for way in ways.values()))  # all warm
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(BLOCKS):
        for name, way in ways.items():
            rates[name].append(await rate(way, at_once=AT_ONCE))
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
    anchor = "harbor" if "harbor" in rates else STEPS
    mine, theirs = statistics.median(rates["agentgym"]), statistics.median(rates[anchor])
    report = {
        "bench": "grade",
        "ours": round(mine, 2),
        "anchor": round(theirs, 2),
        "anchor_name": "harbor CLI, oracle agent" if anchor == "harbor" else "docker client, step by step",
        "unit": "gradings/min",
        "ratio": round(mine / theirs, 2),
        **{f"ratio to {name}": round(mine / statistics.median(rates[name]), 2) for name in (STEPS, ONE_COMMAND)},
        "at_once": AT_ONCE,
    }
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
