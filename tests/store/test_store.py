"""The store's contract, the same on SQLite and PostgreSQL."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
import sqlalchemy as sa

from agentgym.store import (
    CorruptError,
    InvalidTrajectoryError,
    NotFoundError,
    Store,
    StoreError,
    Trajectory,
    TrajectoryFilter,
)
from agentgym.store.detail import detail_document
from agentgym.store.filter import RECORD_FIELDS
from agentgym.store.records import PolicyKind, Step, Termination, VersionSpan, digest_of
from agentgym.store.schema import trajectory_body as bodies
from agentgym.store.sequences import sequences


def plain(trajectory: Trajectory) -> object:
    """Everything of a trajectory in comparable form, arrays as bytes."""
    calls = [
        (
            call.prompt_token_ids.tobytes(),
            call.generation_token_ids.tobytes(),
            call.logprobs.tobytes(),
            (call.sampling, call.policy_versions, call.finish_reason, call.context_event),
            (call.started_at, call.duration),
        )
        for call in trajectory.calls
    ]
    return [getattr(trajectory, name) for name in RECORD_FIELDS], detail_document(trajectory), calls


def test_a_trajectory_comes_back_exactly(store, make_trajectory) -> None:
    written = make_trajectory(parent_id="p" * 32, branch_step=1, seed=-(2**63), group_id="g", split="train", model="m")
    assert store.add(written) is True
    assert plain(store.get(written.id)) == plain(written)
    assert plain(store.get(written.id[:12])) == plain(written)


def test_adding_again_changes_nothing_and_another_under_the_same_id_is_refused(store, make_trajectory) -> None:
    written = make_trajectory()
    store.add(written)
    assert store.add(written) is False
    with pytest.raises(StoreError, match="taken by a different trajectory"):
        store.add(replace(written, reward=0.0))
    assert store.count() == 1
    assert store.get(written.id).reward == 1.0


def test_an_unknown_id_and_an_ambiguous_prefix_say_so(store, make_trajectory) -> None:
    for name in ("ab1", "ab2", "ab"):
        store.add(make_trajectory(id=name))
    assert store.get("ab").id == "ab"  # an exact id wins over the longer ones it begins
    with pytest.raises(NotFoundError, match="fits several"):
        store.get("a")
    for missing in ("zz", "", "AB", "a%", "\ud7ff", "\udc80", "ab\ud800"):
        assert not store.has(missing)
        with pytest.raises(NotFoundError):
            store.get(missing)
    with pytest.raises(NotFoundError):
        store.count(TrajectoryFilter(run_id="\udc80"))


def nested(levels: int) -> dict:
    found: dict = {}
    for _ in range(levels - 1):
        found = {"in": found}
    return found


def test_what_is_nested_as_deep_as_a_record_may_comes_back(store, make_trajectory) -> None:
    deep = make_trajectory(metadata=nested(200), steps=(Step(0, "bash", nested(200), ""),))
    store.add(deep)
    assert (store.get(deep.id).metadata, store.get(deep.id).steps) == (deep.metadata, deep.steps)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"termination": Termination.ENVIRONMENT_FAILURE}, "never a verdict"),
        ({"reward": float("nan")}, "reward is nan"),
        ({"run_id": "a\0b"}, "NUL"),
        ({"parent_id": "x"}, "must come together"),
        ({"parent_id": "\ud800", "branch_step": 1}, "lone surrogate"),
        ({"id": "a", "parent_id": "a", "branch_step": 1}, "goes on from itself"),
        ({"parent_id": "x", "branch_step": -5}, "branch_step -5"),
        ({"parent_id": "x", "branch_step": 2**70}, "branch_step 1180591620717411303424"),
        ({"reward": np.float32(1)}, "reward of a Trajectory is"),
        ({"reward": 2**53 + 1}, "reward of a Trajectory is 9007199254740993"),
        ({"seed": np.int64(1)}, "seed of a Trajectory is"),
        ({"seed": True}, "seed of a Trajectory is True"),
        ({"policy_kind": "model"}, "policy_kind of a Trajectory is 'model'"),
        ({"verdicts": None}, "verdicts of a Trajectory is None"),
        ({"metadata": nested(201)}, "metadata is nested deeper than 200"),
        ({"steps": (Step(0, "bash", nested(201), ""),)}, "step 0: arguments are nested deeper than 200"),
        ({"steps": (Step(0, None, {}, ""),)}, "step 0: tool of a Step is None"),
        ({"steps": (Step(0, "bash", [], ""),)}, r"step 0: arguments of a Step is \[\]"),
        ({"steps": (Step(0, "bash", {}, b""),)}, "step 0: observation of a Step is b''"),
        ({"id": ""}, "1 to 64 characters"),
        ({"id": "x" * 65}, "1 to 64 characters"),
    ],
)
def test_a_record_that_breaks_the_contract_is_refused(store, make_trajectory, changes, fault) -> None:
    with pytest.raises(InvalidTrajectoryError, match=fault):
        store.add(make_trajectory(**changes))
    assert store.count() == 0


def test_a_call_that_breaks_the_contract_is_refused(store, make_call, make_trajectory) -> None:
    good = make_call([1, 2], [3, 4])
    broken = {
        "logprobs for 2": replace(good, logprobs=np.zeros(1, np.float32)),
        "not a one-dimensional int32": replace(good, prompt_token_ids=np.array([1, 2])),
        "is negative": replace(good, prompt_token_ids=np.array([-1, 2], np.int32)),
        "not finite and at most 0": replace(good, logprobs=np.array([0, np.nan], np.float32)),
        "is not finite": replace(good, logprobs=np.array([0, -np.inf], np.float32)),
        "cover 1 of 2": replace(good, policy_versions=(VersionSpan(0, 0, 1),)),
        "does not continue": replace(good, policy_versions=(VersionSpan(0, 1, 2),)),
        "temperature nan": replace(good, sampling=replace(good.sampling, temperature=float("nan"))),
        "temperature inf": replace(good, sampling=replace(good.sampling, temperature=float("inf"))),
        "temperature -1": replace(good, sampling=replace(good.sampling, temperature=-1.0)),
        "top_p nan": replace(good, sampling=replace(good.sampling, top_p=float("nan"))),
        "started at nan": replace(good, started_at=float("nan")),
        "temperature of a Sampling is 1000": replace(good, sampling=replace(good.sampling, temperature=10**400)),
        "duration of a ModelCall is '1'": replace(good, duration="1"),
        "policy version 1000": replace(good, policy_versions=(VersionSpan(10**400, 0, 2),)),
        r"version span \[0, 1000": replace(good, policy_versions=(VersionSpan(0, 0, 10**400),)),
        "end of a VersionSpan is 2.0": replace(good, policy_versions=(VersionSpan(0, 0, 2.0),)),
        "policy version -1": replace(good, policy_versions=(VersionSpan(-1, 0, 2),)),
    }
    for fault, call in broken.items():
        with pytest.raises(InvalidTrajectoryError, match=fault):
            store.add(make_trajectory(call, steps=()))
    with pytest.raises(InvalidTrajectoryError, match="leaves the previous prompt"):
        store.add(make_trajectory(good, make_call([1, 2, 3], [5]), steps=()))
    with pytest.raises(InvalidTrajectoryError, match="call_index 1"):
        store.add(
            make_trajectory(good, steps=(*make_trajectory().steps, replace(make_trajectory().steps[0], call_index=1)))
        )
    with pytest.raises(StoreError, match="without JSON form"):
        store.add(make_trajectory(metadata={"x": object()}))
    assert store.count() == 0


def test_queries_filter_by_every_column_people_ask_for(store, make_call, make_trajectory) -> None:
    plan = {
        "a": {"run_id": "r1", "task_id": "t1", "split": "train", "reward": 1.0, "created_at": 10.0},
        "b": {"run_id": "r1", "task_id": "t2", "split": "test", "reward": 0.0, "created_at": 20.0},
        "c": {
            "run_id": "r2",
            "task_id": "t1",
            "reward": None,
            "termination": Termination.CANCELLED,
            "created_at": 30.0,
        },
        "d": {"run_id": "r2", "policy_kind": PolicyKind.SCRIPTED, "created_at": 30.0, "harness_digest": "h2"},
    }
    for name, changes in plan.items():
        store.add(make_trajectory(id=name, **changes))
    store.add(
        make_trajectory(make_call([1], [2], (3, 1)), id="e", steps=(), created_at=40.0, parent_id="a", branch_step=0)
    )

    def ids(**conditions) -> str:
        return "".join(summary.id for summary in store.query(TrajectoryFilter(**conditions)))

    assert ids() == "abcde"
    assert ids(newest_first=True) == "edcba"
    assert ids(limit=2) == "ab"
    assert ids(limit=0) == ""
    assert ids(run_id="r1") == "ab"
    assert ids(task_id="t1") == "ac"
    assert ids(split="test") == "b"
    assert ids(terminations=(Termination.CANCELLED,)) == "c"
    assert ids(reward_min=0.5) == "ade"
    assert ids(reward_max=0.5) == "b"
    assert ids(has_reward=False) == "c"
    assert ids(trainable=True) == "abe"
    assert ids(policy_kind=PolicyKind.SCRIPTED) == "d"
    assert ids(harness_digest="h2") == "d"
    assert ids(version_min=7) == "abcd"
    assert ids(version_max=3) == "e"
    assert ids(created_after=20.0, created_before=40.0) == "bcd"
    assert ids(parent_id="a") == "e"
    assert store.count(TrajectoryFilter(run_id="r2")) == 2
    [one] = store.query(TrajectoryFilter(task_id="t2"))
    assert (one.calls, one.steps, one.tokens, one.action_tokens) == (2, 2, 7, 3)
    assert (one.version_min, one.version_max, one.termination) == (7, 9, Termination.SUBMITTED)


def test_streams_page_without_losing_or_repeating_rows_of_the_same_age(store, make_trajectory) -> None:
    for i in range(40):
        store.add(make_trajectory(id=f"{i:02}", created_at=float(i // 15)))
    assert [trajectory.id for trajectory in store.iter()] == [f"{i:02}" for i in range(40)]
    backwards = [trajectory.id for trajectory in store.iter(TrajectoryFilter(newest_first=True, limit=35))]
    assert backwards == [f"{i:02}" for i in reversed(range(5, 40))]


def test_what_a_learner_streams_is_what_the_records_say(store, make_trajectory) -> None:
    written = make_trajectory()
    store.add(written)
    [(summary, streamed)] = store.iter_sequences()
    assert summary.id == written.id
    for ours, theirs in zip(streamed, sequences(written), strict=True):
        for name in ("token_ids", "action_mask", "logprobs", "policy_version", "call_index", "temperature"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), strict=True)
        assert (ours.trajectory_id, ours.index, ours.reward) == (theirs.trajectory_id, theirs.index, theirs.reward)


def test_a_writer_may_add_while_a_reader_streams(store, make_trajectory) -> None:
    for i in range(40):
        store.add(make_trajectory(id=f"{i:02}", created_at=float(i)))
    seen = []
    for trajectory in store.iter():
        if len(seen) == 5:
            store.add(make_trajectory(id="late", created_at=99.0))
        seen.append(trajectory.id)
    assert seen[-1] == "late"
    assert len(seen) == 41


def test_damaged_bytes_are_reported_by_id_and_do_not_poison_the_others(store, make_trajectory) -> None:
    for name in "abcdef":
        store.add(make_trajectory(id=name, created_at=1.0))
    with store.engine.begin() as connection:
        blob = connection.execute(sa.select(bodies.c.tokens).where(bodies.c.trajectory_id == "a")).scalar_one()
        detail = connection.execute(sa.select(bodies.c.detail).where(bodies.c.trajectory_id == "a")).scalar_one()
        flipped = blob[:-3] + bytes([blob[-3] ^ 1]) + blob[-2:]
        for name, values in {
            "b": {"tokens": flipped},
            "c": {"tokens": blob[:-1]},
            "d": {"tokens": b""},
            "e": {"detail": detail[:40] + b"x" + detail[41:]},
        }.items():
            connection.execute(bodies.update().where(bodies.c.trajectory_id == name).values(values))
        connection.execute(bodies.delete().where(bodies.c.trajectory_id == "f"))
    damaged: dict[str, str] = {}
    read = [
        trajectory.id for trajectory in store.iter(on_corrupt=lambda name, error: damaged.update({name: str(error)}))
    ]
    assert read == ["a"]
    assert damaged.keys() == set("bcdef")
    assert all(f"trajectory {name}" in message for name, message in damaged.items())
    assert [summary.id for summary, _ in store.iter_sequences()] == ["a", "e"]  # its tokens are sound
    with pytest.raises(CorruptError, match="trajectory b: checksum"):
        store.get("b")


def test_a_harness_document_is_kept_with_the_trajectory_under_its_digest(store, make_trajectory) -> None:
    harness = {"prompt": "a\0b", "tools": []}
    named = digest_of(harness)
    store.add(make_trajectory(id="a", harness_digest=named), harness)
    store.add(make_trajectory(id="b", harness_digest=named), dict(reversed(harness.items())))
    assert store.get_document(named) == harness
    with pytest.raises(StoreError, match="is not the one that"):
        store.add(make_trajectory(id="c", harness_digest=named), {"prompt": "b"})
    for odd in (["a"], [["a", 1]], "abc", 5, nested(201)):
        with pytest.raises(StoreError, match="is not the one that"):
            store.add(make_trajectory(id="c", harness_digest=digest_of(odd)), odd)
    assert not store.has("c")
    with pytest.raises(NotFoundError):
        store.get_document("sha256:none")


def test_threads_share_one_store(store, make_trajectory) -> None:
    def write(thread: int) -> None:
        for i in range(10):
            store.add(make_trajectory(id=f"{thread}-{i}"))
            store.get(f"{thread}-{i}")

    threads = [threading.Thread(target=write, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.count() == 80


def test_opening_twice_keeps_what_is_there(store, store_url, make_trajectory) -> None:
    store.add(make_trajectory(id="kept"))
    with Store.open(store_url, create=False) as again:
        assert again.get("kept").id == "kept"


def test_metrics_of_a_step_that_is_taken_again_take_the_place_of_the_old(store) -> None:
    store.put_metrics("run", 1, {"loss": 0.5, "kl": 0.1})
    store.put_metrics("run", 2, {"loss": 0.4})
    store.put_metrics("other", 1, {"loss": 9.0})
    store.put_metrics("run", 1, {"loss": 0.6})
    assert store.metrics("run") == {1: {"loss": 0.6}, 2: {"loss": 0.4}}
    assert store.measured_runs() == ["other", "run"]
    assert store.metrics("none") == {}
