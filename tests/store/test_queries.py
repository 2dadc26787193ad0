"""Listings at 100,000 trajectories: every question is answered from an index, and streams hold one page."""

from __future__ import annotations

import random
import time
import tracemalloc
from dataclasses import replace

import pytest
import sqlalchemy as sa

from agentgym.store import Store, TrajectoryFilter
from agentgym.store.records import Termination
from agentgym.store.rows import encode_trajectory
from agentgym.store.schema import trajectory as rows
from agentgym.store.schema import trajectory_body as bodies
from agentgym.store.transfer import export

QUESTIONS = {
    "everything": TrajectoryFilter(),
    "run": TrajectoryFilter(run_id="run-3"),
    "task": TrajectoryFilter(task_id="task-7"),
    "split": TrajectoryFilter(split="held-out"),
    "termination": TrajectoryFilter(terminations=(Termination.CANCELLED, Termination.TIME_LIMIT)),
    "rare reward": TrajectoryFilter(reward_min=2.0),
    "no verdict": TrajectoryFilter(has_reward=False),
    "old version": TrajectoryFilter(version_max=1),
    "harness": TrajectoryFilter(harness_digest="sha256:none"),
    "policy": TrajectoryFilter(policy="policy-1"),
    "model": TrajectoryFilter(model="none"),
    "group": TrajectoryFilter(group_id="g77"),
    "children": TrajectoryFilter(parent_id="x"),
    "age": TrajectoryFilter(created_before=5_000.0),
    "trainable": TrajectoryFilter(trainable=True),
}


@pytest.fixture(scope="module")
def big(tmp_path_factory) -> Store:
    """20,000 rows: enough for a scan to show, in seconds to make."""
    chance = random.Random(0)
    store = Store.open(tmp_path_factory.mktemp("big") / "store.db")
    ends = [one.value for one in Termination]
    made = [
        {
            "id": f"{chance.getrandbits(128):032x}", "run_id": f"run-{i // 1000}", "group_id": f"g{i // 8}",
            "parent_id": None, "branch_step": None, "task_id": f"task-{chance.randrange(100)}",
            "task_digest": f"sha256:{i % 100:064x}", "split": "held-out" if i % 50 == 0 else "train",
            "harness_digest": f"sha256:{i % 7:064x}", "backend": "docker", "image_digest": f"sha256:{i % 100:064x}",
            "policy": f"policy-{i % 5}", "policy_kind": "model", "model": "some-model", "termination": chance.choice(ends),
            "reward": None if i % 9 == 0 else float(i % 3 == 0), "seed": i, "version_min": i // 1000,
            "version_max": i // 1000 + 1, "calls": 30, "steps": 29, "tokens": 60_000, "action_tokens": 8_000,
            "created_at": 10.0 * i,
        }
        for i in range(20_000)
    ]  # fmt: skip
    with store.engine.begin() as connection:
        connection.execute(rows.insert(), made)
    return store


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_reads_the_whole_table(big: Store, question: str) -> None:
    where = replace(QUESTIONS[question], newest_first=True, limit=50)
    listing = sa.select(rows).where(*where.conditions()).order_by(*where.order()).limit(50)
    counting = sa.select(sa.func.count()).select_from(rows).where(*where.conditions())
    with big.engine.connect() as connection:
        for query in (listing, counting):
            text = str(query.compile(big.engine, compile_kwargs={"literal_binds": True}))
            plan = [row[-1] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")]
            assert all("USING" in step for step in plan if "trajectory" in step), plan


def test_a_page_of_any_listing_comes_quickly(big: Store) -> None:
    slowest = 0.0
    for where in QUESTIONS.values():
        took = []
        for _ in range(3):
            began = time.process_time()
            list(big.query(replace(where, newest_first=True, limit=50)))
            big.count(where)
            took.append(time.process_time() - began)
        slowest = max(slowest, min(took))
    assert slowest < 0.2


def test_reading_and_exporting_many_holds_few_in_memory(store, make_call, make_trajectory, tmp_path) -> None:
    noise = random.Random(1)
    prompts = [[noise.randrange(49_000) for _ in range(3_000)] for _ in range(4)]
    encoded = [encode_trajectory(make_trajectory(make_call(prompt, [1]), steps=())) for prompt in prompts]

    def peak(count: int) -> int:
        with store.engine.begin() as connection:
            for i in range(store.count(), count):
                one = encoded[i % 4]
                connection.execute(rows.insert(), {**one.row, "id": f"{i:04}"})
                connection.execute(bodies.insert(), {**one.body, "trajectory_id": f"{i:04}"})
        tracemalloc.start()
        for _ in store.iter_sequences():
            pass
        export(store, TrajectoryFilter(), "json", tmp_path / f"{count}.jsonl")
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    few = peak(32)
    assert peak(128) < 1.3 * few
