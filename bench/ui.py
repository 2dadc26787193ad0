"""What the server costs: a page of a list of 100,000 trajectories, a trajectory of 200 steps and 200,000 tokens in a
browser, and requests for metadata a second; the real server, a seeded store, one process each for server and client.

list_p95_ms is over the pages people ask for: unfiltered, by run, task, termination and reward, sorted by every column,
and deep behind a cursor, each as complete HTML. trajectory_ms is from the click until every step is in the document, the
first ones with their text, keys and search answer, and the browser has drawn (median of five); tokens_ms until the heat
map answers. api_rps is over 16 connections kept alive.
Targets: list_p95_ms ≤ 200, trajectory_ms ≤ 1000, api_rps ≥ 500 on two idle cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from rich.console import Console
from rich.table import Table

from agentgym.store import Store, Trajectory
from agentgym.store.engine import writing
from agentgym.store.records import FinishReason, ModelCall, PolicyKind, Sampling, Step, Termination, VersionSpan
from agentgym.store.rows import encode_trajectory
from agentgym.store.schema import trajectory as rows
from agentgym.store.schema import trajectory_body as bodies

TURNS = 200
TOKENS = 200_000
CONNECTIONS = 16


def long_trajectory(rng: np.random.Generator) -> Trajectory:
    """TURNS calls, TOKENS distinct tokens, an observation of 3,000 characters a step."""
    each = TOKENS // TURNS
    prompt = rng.integers(0, 49_000, each // 2).astype(np.int32)
    calls, steps = [], []
    for turn in range(TURNS):
        generation = rng.integers(0, 49_000, each // 2).astype(np.int32)
        logprobs = -rng.exponential(0.7, len(generation)).astype(np.float32)
        span = (VersionSpan(turn // 50, 0, len(generation)),)
        calls.append(ModelCall(prompt, generation, logprobs, Sampling(), span, FinishReason.STOP, duration=1.0))
        observation = "\n".join(f"src/module_{turn}.py:{line}: value = {line * 7}" for line in range(75))
        steps.append(Step(turn, "bash", {"command": f"grep -n value src/module_{turn}.py"}, observation, exit_code=0))
        prompt = np.concatenate([prompt, generation, rng.integers(0, 49_000, each // 2).astype(np.int32)])
    return trajectory(id="long", calls=tuple(calls), steps=tuple(steps), created_at=2e9)


def trajectory(**changes: object) -> Trajectory:
    fields: dict = {
        "task_id": "task",
        "task_digest": "sha256:task",
        "harness_digest": "sha256:harness",
        "backend": "docker",
        "image_digest": "sha256:image",
        "policy": "policy",
        "policy_kind": PolicyKind.MODEL,
        "model": "smollm2-135m-instruct",
        "calls": (),
        "steps": (),
        "termination": Termination.SUBMITTED,
        "reward": 0.0,
        "run_id": "run",
    }
    return Trajectory(**{**fields, **changes})


def seed(path: Path, count: int) -> None:
    """`count` rows that differ as real ones do, all with one small body: a list reads no body."""
    rng = np.random.default_rng(0)
    endings = [one.value for one in Termination]
    with Store.open(path) as store:
        store.add(long_trajectory(rng))
        encoded = encode_trajectory(trajectory())
        for start in range(0, count, 10_000):
            part = range(start, min(start + 10_000, count))
            chosen = rng.integers(0, 1 << 30, (len(part), 4))
            made = [
                encoded.row
                | {
                    "id": f"{a:08x}{number:024x}",
                    "run_id": f"run-{number // 2000:03d}",
                    "task_id": f"task-{b % 500:03d}",
                    "termination": endings[c % len(endings)],
                    "reward": None if c % 11 > 7 else float(d % 3 == 0),
                    "steps": int(d % 60),
                    "tokens": int(a % 60_000),
                    "action_tokens": int(b % 9_000),
                    "created_at": 1.7e9 + number,
                }
                for number, (a, b, c, d) in zip(part, chosen.tolist(), strict=True)
            ]
            with writing(store.engine) as connection:
                connection.execute(rows.insert(), made)
                connection.execute(bodies.insert(), [encoded.body | {"trajectory_id": row["id"]} for row in made])


@contextmanager
def server(path: Path, workers: int) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "agentgym", "serve", "--port", str(port), "--store", str(path)]
    command += ["--workers", str(workers)]
    process = subprocess.Popen(command, stdout=sys.stderr, stderr=sys.stderr, env=os.environ)
    try:
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/v1/health", trust_env=False)
                break
            except httpx.TransportError:
                if process.poll() is not None:
                    raise SystemExit("the server did not start") from None
                time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=30)


def list_times(port: int, rounds: int) -> list[float]:
    """Milliseconds of each page."""
    queries = ["", "run_id=run-020", "task_id=task-007", "termination=max_steps", "reward_min=1", "has_reward=false"]
    queries += [f"sort={one}" for one in ("reward", "steps", "tokens", "action_tokens", "created_at&order=asc")]
    times = []
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        deep = client.get("/v1/trajectories?limit=1000").json()["next"]
        queries.append(f"cursor={deep}")
        client.get("/trajectories")
        for query in queries * rounds:
            began = time.perf_counter()
            answer = client.get(f"/trajectories?{query}")
            times.append(1000 * (time.perf_counter() - began))
            assert answer.status_code == 200
            assert answer.text.count("<tr>") > 40
    return times


def page_times(port: int) -> tuple[float, float] | None:
    """Milliseconds until a trajectory page, and its heat map, can be used. None without a browser."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(base_url=f"http://127.0.0.1:{port}", viewport={"width": 1280, "height": 900})
        page.goto("/trajectories")
        trajectory_ms, tokens_ms = [], []
        for _ in range(5):
            began = time.perf_counter()
            page.goto("/trajectories/long")
            page.wait_for_selector("#turns[data-ready]", state="attached")
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            assert page.locator(".step").count() == TURNS
            trajectory_ms.append(1000 * (time.perf_counter() - began))
            began = time.perf_counter()
            page.goto("/trajectories/long/tokens")
            page.wait_for_selector("#heat[data-ready] i")
            tokens_ms.append(1000 * (time.perf_counter() - began))
        browser.close()
    return statistics.median(trajectory_ms), statistics.median(tokens_ms)


async def requests_per_second(port: int, seconds: float) -> float:
    """Answers a second for the metadata of one trajectory, over connections that ask again as soon as answered."""
    request = f"GET /v1/trajectories/long HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    deadline = time.perf_counter() + seconds
    answered = 0

    async def connection() -> None:
        nonlocal answered
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < deadline:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert head.startswith(b"http/1.1 200"), head
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            answered += 1
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))
    return answered / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trajectories", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1, help="server processes")
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        with console.status(f"seeding {options.trajectories} trajectories…"):
            seed(path, options.trajectories)
        with server(path, options.workers) as port:
            times = sorted(list_times(port, options.rounds))
            pages = page_times(port)
            rate = asyncio.run(requests_per_second(port, options.seconds))
    result = {
        "list_p95_ms": round(times[min(len(times) - 1, int(0.95 * len(times)))], 1),
        "list_median_ms": round(statistics.median(times), 1),
        "trajectory_ms": None if pages is None else round(pages[0], 1),
        "tokens_ms": None if pages is None else round(pages[1], 1),
        "api_rps": round(rate, 1),
        "workers": options.workers,
        "load": os.getloadavg()[0],
    }
    table = Table(box=None, show_header=False)
    for name, value in result.items():
        table.add_row(name, str(value))
    console.print(table)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
