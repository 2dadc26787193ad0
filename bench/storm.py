"""A storm: 512 episodes of 10 scripted steps on one Docker engine, as many alive at once as fit in memory.

All episodes are asked for at once; admission lets in what fits. Those that are let in wait for each other, then all take their
steps at the same time, end at the same time, and make room for the next wave: the worst an engine can be asked for. An
episode is *lost* unless each of its commands gave what it should, its own number included; an *error* is any failure of
the engine that reached an episode. CPU is what this process used from the first start to the last removal, divided by the steps.

The anchor does the same work through the `docker` command line (run -d, ten exec, rm -f), eight episodes at a time, on a
sample of 24 episodes; `ratio` compares steps per second, start and removal included, so its part is extrapolated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from rich.console import Console
from rich.table import Table

from agentgym.errors import AgentGymError
from agentgym.sandbox import Capacity, ManagedBackend, open_backend
from agentgym.sandbox.protocol import Image, ImageSpec, Limits, SandboxError

LIMITS = Limits(memory_mb=64, cpus=1.0, pids=64)
ANCHOR_EPISODES = 24
ANCHOR_AT_ONCE = 8

DOCKERFILE = """
FROM debian:bookworm
WORKDIR /testbed
RUN for i in 1 2 3 4 5 6 7 8; do printf 'def f%s(x):\\n    return x + %s\\n' $i $i > m$i.py; done; echo storm > README.md
"""

SCRIPT = (
    ("ls", "README.md"),
    ("cat README.md", "storm"),
    ("grep -rn 'def f' . | head -20", "m1.py:1:def f1(x):"),
    ("sed -n 1,2p m3.py", "return x + 3"),
    ("cat > note.txt <<'END'\nepisode {number}\nEND\n", ""),
    ("sed -i 's/x + 2/x + 22/' m2.py && cat m2.py", "x + 22"),
    ("git status --short", "m2.py"),
    ("git diff | tail -n 2", "+    return x + 22"),
    ("cd /tmp && export SEEN=yes && pwd", "/tmp"),
    ("cat /testbed/note.txt", "episode {number}"),
)


@dataclass
class Storm:
    backend: ManagedBackend
    image: Image
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    at_gate: int = 0
    lost: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    most_alive: int = 0
    memory_mb: list[float] = field(default_factory=list)

    async def episode(self, number: int) -> None:
        try:
            sandbox = await self.backend.start(self.image, LIMITS)
            try:
                self.at_gate += 1
                await self.gate.wait()
                for command, expected in SCRIPT:
                    result = await sandbox.exec(command.format(number=number), stateful=True)
                    if result.exit_code != 0 or expected.format(number=number) not in result.text:
                        self.lost.append(f"episode {number}: {command!r} gave {result.exit_code} {result.text[:200]!r}")
                        return
            finally:
                await sandbox.close()
        except SandboxError as error:
            self.errors.append(f"episode {number}: {error}")
            self.lost.append(self.errors[-1])

    async def conduct(self) -> None:
        """Opens the gate whenever all that fit have started, and notes this process's memory at the end of each wave."""
        while True:
            await asyncio.sleep(0.1)
            now = self.backend.metrics()
            self.most_alive = max(self.most_alive, now.live)
            if self.at_gate and not now.starting and not now.throttled:
                self.at_gate = 0
                gate, self.gate = self.gate, asyncio.Event()
                gate.set()
                self.memory_mb.append(resident_mb())


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def docker(*arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "docker", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"docker {' '.join(arguments)}: {output.decode(errors='replace')}")
    return output.decode(errors="replace")


async def anchor_episode(image: Image, number: int, turn: asyncio.Semaphore) -> None:
    async with turn:
        name = f"agentgym-storm-{uuid4().hex[:12]}"
        isolation = ["--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        isolation += ["--memory", "64m", "--memory-swap", "64m", "--cpus", "1", "--pids-limit", "64"]
        await docker("run", "-d", "--rm", "--name", name, *isolation, image.ref, "sleep", "3600")
        for command, expected in SCRIPT:
            output = await docker("exec", name, "bash", "-c", command.format(number=number))
            assert expected.format(number=number) in output, output
        await docker("rm", "-f", name)


async def measure(episodes: int) -> dict[str, float | int | str]:
    whole = Capacity.of_this_machine()
    capacity = replace(whole, live=2 * episodes, cpus=LIMITS.cpus * 2 * episodes)  # memory alone is the limit
    backend = await open_backend("docker", owner="bench-storm", capacity=capacity)
    try:
        with tempfile.TemporaryDirectory() as context:
            (Path(context) / "Dockerfile").write_text(DOCKERFILE)
            image = await backend.ensure_image(ImageSpec("bench-storm", "sha256:bench-storm-1", context=Path(context)))
        storm = Storm(backend, image)
        conductor = asyncio.create_task(storm.conduct())
        before_mb, cpu, began = resident_mb(), own_cpu_s(), time.perf_counter()
        await asyncio.gather(*(storm.episode(number) for number in range(episodes)))
        seconds, cpu = time.perf_counter() - began, own_cpu_s() - cpu
        conductor.cancel()
        turn = asyncio.Semaphore(ANCHOR_AT_ONCE)
        began = time.perf_counter()
        await asyncio.gather(*(anchor_episode(image, number, turn) for number in range(ANCHOR_EPISODES)))
        anchor_seconds = time.perf_counter() - began
        metrics = backend.metrics()
    finally:
        await backend.close()
    for line in [*storm.lost[:5], *storm.errors[:5]]:
        print(line, file=sys.stderr)
    steps, anchor_steps = episodes * len(SCRIPT), ANCHOR_EPISODES * len(SCRIPT)
    rate, anchor_rate = steps / seconds, anchor_steps / anchor_seconds
    return {
        "bench": "storm",
        "episodes": episodes,
        "steps": steps,
        "lost": len(storm.lost),
        "errors": len(storm.errors),
        "retries": metrics.retries,
        "most_alive": storm.most_alive,
        "seconds": round(seconds, 1),
        "steps_per_s": round(rate, 1),
        "cpu_ms_per_step": round(1e3 * cpu / steps, 3),
        "memory_mb_before": round(before_mb, 1),
        "memory_mb_waves": " ".join(f"{mb:.0f}" for mb in storm.memory_mb),
        "wait_p50_s": round(metrics.wait_p50_s, 1),
        "anchor": round(anchor_rate, 2),
        "anchor_name": f"docker run/exec/rm, {ANCHOR_EPISODES} episodes, per step",
        "unit": "steps/s",
        "ratio": round(rate / anchor_rate, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=512)
    try:
        report = asyncio.run(measure(parser.parse_args().episodes))
    except AgentGymError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    table = Table("what", "value", title="a storm of episodes on one Docker engine")
    for key, value in report.items():
        table.add_row(key, str(value))
    Console(stderr=True).print(table)
    print(json.dumps(report))
    return 0 if not report["lost"] else 1


if __name__ == "__main__":
    sys.exit(main())
