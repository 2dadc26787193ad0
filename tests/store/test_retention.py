"""Removing: what the filter says, the whole of it, and nothing that others still need."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from agentgym.store import NotFoundError, Store, TrajectoryFilter
from agentgym.store.check import check_store
from agentgym.store.records import digest_of
from agentgym.store.retention import Removal, plan_removal, remove, vacuum
from agentgym.store.schema import trajectory_body as bodies


def ids(store: Store) -> str:
    return "".join(summary.id for summary in store.query())


def test_a_run_goes_with_its_blobs_and_no_other_does(store, make_trajectory) -> None:
    for i in range(5):
        store.add(make_trajectory(id=f"{i}", run_id="old" if i < 3 else "new", created_at=float(i)))
    planned = plan_removal(store, TrajectoryFilter(run_id="old"))
    assert ids(store) == "01234"
    assert remove(store, TrajectoryFilter(run_id="old")) == planned
    assert (planned.trajectories, planned.kept, planned.documents) == (3, 0, 0)
    assert planned.blob_bytes > 100
    assert ids(store) == "34"
    with store.engine.connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(bodies)).scalar_one() == 2
    assert remove(store, TrajectoryFilter(created_before=0.0)) == Removal(0, 0, 0, 0)
    assert check_store(store).ok


def test_age_and_reward_choose_together(store, make_trajectory) -> None:
    for i in range(4):
        store.add(make_trajectory(id=f"{i}", reward=float(i % 2), created_at=float(i)))
    remove(store, TrajectoryFilter(created_before=3.0, reward_max=0.0, limit=1))  # a limit is no choice
    assert ids(store) == "13"


def test_harness_documents_go_with_the_last_trajectory_that_names_them(store, make_trajectory) -> None:
    one, two = {"profile": "h1"}, {"profile": "h2"}
    for name, harness in (("a", one), ("b", one), ("c", two)):
        store.add(make_trajectory(id=name, harness_digest=digest_of(harness)), harness)
    assert remove(store, TrajectoryFilter(harness_digest=digest_of(two))).documents == 1
    assert store.get_document(digest_of(one)) == one
    with pytest.raises(NotFoundError):
        store.get_document(digest_of(two))
    assert remove(store, TrajectoryFilter()).documents == 1
    store.add(make_trajectory(id="d", harness_digest=digest_of(one)), one)  # a run that was under way meanwhile
    assert store.get_document(digest_of(one)) == one


@pytest.fixture
def family(store, make_trajectory) -> Store:
    """a ← b ← c, and d ← e; a, b and d are old."""
    for name, parent, age in (("a", None, 1.0), ("b", "a", 2.0), ("c", "b", 9.0), ("d", None, 3.0), ("e", "d", 4.0)):
        branch = None if parent is None else 0
        store.add(make_trajectory(id=name, parent_id=parent, branch_step=branch, created_at=age))
    return store


def test_an_original_stays_while_others_go_on_from_it(family) -> None:
    found = remove(family, TrajectoryFilter(created_before=5.0))
    assert (found.trajectories, found.kept) == (2, 2)
    assert ids(family) == "abc"


def test_with_children_everything_below_goes_too(family) -> None:
    planned = plan_removal(family, TrajectoryFilter(created_before=1.5), with_children=True)
    assert (planned.trajectories, planned.kept) == (3, 0)
    assert remove(family, TrajectoryFilter(created_before=1.5), with_children=True) == planned
    assert ids(family) == "de"


def test_compacting_gives_the_space_back(tmp_path: Path, make_call, make_trajectory) -> None:
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        for i in range(20):
            prompt = [(i * 7919 + j * 104_729) % 49_000 for j in range(9_000)]
            store.add(make_trajectory(make_call(prompt, [1]), steps=()))
    before = path.stat().st_size
    with Store.open(path) as store:
        remove(store, TrajectoryFilter())
        vacuum(store)
        assert path.stat().st_size < before / 2
        assert store.add(make_trajectory(id="after")) is True


def test_a_killed_removal_leaves_all_or_nothing(store, store_url, make_call, make_trajectory) -> None:
    for i in range(300):
        store.add(make_trajectory(make_call(range(400), [1]), id=f"{i:03}", run_id="old", steps=()))

    def run() -> None:
        with Store.open(store_url) as own:
            remove(own, TrajectoryFilter(run_id="old"))

    forked = multiprocessing.get_context("fork")
    for delay in (0.0, 0.005, 0.02):
        process = forked.Process(target=run)
        process.start()
        time.sleep(delay)
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join(60)
        assert store.count() in (0, 300)
        assert check_store(store).ok
    remove(store, TrajectoryFilter(run_id="old"))
    assert store.count() == 0
