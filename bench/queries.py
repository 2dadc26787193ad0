"""What a listing costs at 100,000 trajectories: a page of 50 with the count beside it, for every question a list asks.

Rows are made up and bodies are empty; a listing reads none. Each question is asked `ROUNDS` times in one thread through
`Store` on an SQLite file, as the command line and the pages do.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agentgym.store import Store, TrajectoryFilter
from agentgym.store.records import Termination
from agentgym.store.schema import trajectory as rows

TRAJECTORIES = 100_000
ROUNDS = 10
PAGE = 50

QUESTIONS = {
    "everything": TrajectoryFilter(),
    "a run": TrajectoryFilter(run_id="run-7"),
    "a task": TrajectoryFilter(task_id="task-3"),
    "a split": TrajectoryFilter(split="held-out"),
    "a termination": TrajectoryFilter(terminations=(Termination.TIME_LIMIT,)),
    "solved": TrajectoryFilter(reward_min=1.0),
    "a reward nobody got": TrajectoryFilter(reward_min=2.0),
    "without verdict": TrajectoryFilter(has_reward=False),
    "the oldest versions": TrajectoryFilter(version_max=3),
    "a harness": TrajectoryFilter(harness_digest=f"sha256:{3:064x}"),
    "a harness nobody used": TrajectoryFilter(harness_digest="sha256:none"),
    "a policy": TrajectoryFilter(policy="policy-3"),
    "a group": TrajectoryFilter(group_id="g77"),
    "children": TrajectoryFilter(parent_id="none"),
    "of one day": TrajectoryFilter(created_after=1.8e9 + 86_400, created_before=1.8e9 + 2 * 86_400),
    "trainable": TrajectoryFilter(trainable=True),
    "solved in a run": TrajectoryFilter(run_id="run-7", reward_min=1.0),
    "a run's cancelled": TrajectoryFilter(run_id="run-7", terminations=(Termination.CANCELLED,)),
}


def made_up(count: int) -> list[dict[str, Any]]:
    """Rows in runs of 2,000 with eight rollouts a group, one every ten seconds."""
    chance = random.Random(0)
    ends = list(Termination)
    found = []
    for i in range(count):
        ended = chance.choice(ends)
        found.append(
            {
                "id": f"{chance.getrandbits(128):032x}",
                "run_id": f"run-{i // 2000}",
                "group_id": f"g{i // 8}",
                "parent_id": None,
                "branch_step": None,
                "task_id": f"task-{chance.randrange(500)}",
                "task_digest": f"sha256:{chance.randrange(500):064x}",
                "split": "held-out" if i % 4 == 0 else "train",
                "harness_digest": f"sha256:{i % 7:064x}",
                "backend": "docker",
                "image_digest": f"sha256:{chance.randrange(500):064x}",
                "policy": f"policy-{i % 5}",
                "policy_kind": "model",
                "model": "a-model",
                "termination": ended.value,
                "reward": None if ended.is_failure else float(chance.random() < 0.3),
                "seed": i,
                "version_min": i // 1000,
                "version_max": i // 1000 + 1,
                "calls": 30,
                "steps": 29,
                "tokens": 60_000,
                "action_tokens": 8_000,
                "created_at": 1.8e9 + 10 * i,
            }
        )
    return found


def main() -> int:
    times: dict[str, list[float]] = {name: [] for name in QUESTIONS}
    with tempfile.TemporaryDirectory() as directory, Store.open(Path(directory) / "store.db") as store:
        with store.engine.begin() as connection:
            connection.execute(rows.insert(), made_up(TRAJECTORIES))
        for _ in range(ROUNDS):
            for name, where in QUESTIONS.items():
                began = time.perf_counter()
                list(store.query(replace(where, newest_first=True, limit=PAGE)))
                store.count(where)
                times[name].append(1000 * (time.perf_counter() - began))
        began = time.perf_counter()
        seen = sum(1 for _ in store.query())
        streamed = seen / (time.perf_counter() - began)
    everything = [one for taken in times.values() for one in taken]
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    slowest = max(medians, key=medians.__getitem__)
    result = {
        "bench": "queries",
        "ours": round(statistics.quantiles(everything, n=20)[-1], 1),
        "unit": "ms",
        "list_p95_ms": round(statistics.quantiles(everything, n=20)[-1], 1),
        "list_median_ms": round(statistics.median(everything), 1),
        "slowest_question": slowest,
        "slowest_median_ms": round(medians[slowest], 1),
        "rows_streamed_per_s": int(streamed),
        "trajectories": TRAJECTORIES,
    }
    table = Table(title=f"a page of {PAGE} with its count, of {TRAJECTORIES:,} trajectories")
    for column in ("", "median ms", "slowest ms"):
        table.add_column(column, justify="right" if column else "left")
    for name, taken in times.items():
        table.add_row(name, f"{medians[name]:.1f}", f"{max(taken):.1f}")
    Console(stderr=True).print(table)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
