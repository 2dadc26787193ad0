"""The integrity check finds what is broken, and names the trajectory."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import sqlalchemy as sa

from agentgym.store import Store, check, codec
from agentgym.store.check import check_store
from agentgym.store.codec import encode_calls
from agentgym.store.container import pack, unpack
from agentgym.store.errors import CorruptError
from agentgym.store.filter import TrajectoryFilter
from agentgym.store.layout import layout_of
from agentgym.store.records import ContextEvent, Step, digest_of
from agentgym.store.schema import document as documents
from agentgym.store.schema import trajectory as rows
from agentgym.store.schema import trajectory_body as bodies


def test_a_sound_store_passes_with_its_counts(store, make_call, make_trajectory) -> None:
    store.add(make_trajectory())
    compacted = make_call([1, 2], [3, 4]), make_call([1, 9], [5], event="compacted"), make_call([1, 9, 5], [])
    store.add(make_trajectory(*compacted, steps=()))
    done: list[str] = []
    report = check_store(store, on_progress=done.append)
    assert report.ok, report.faults
    assert (report.trajectories, report.sequences, report.tokens, report.action_tokens) == (2, 3, 13, 6)
    assert len(done) == 2


def test_a_wrong_column_is_found(store, make_trajectory) -> None:
    store.add(make_trajectory(id="good"))
    store.add(make_trajectory(id="bad"))
    with store.engine.begin() as connection:
        connection.execute(rows.update().where(rows.c.id == "bad").values(tokens=99, version_min=1))
    assert [(fault.trajectory_id, fault.message) for fault in check_store(store).faults] == [
        ("bad", "column tokens says 99, the blobs say 7"),
        ("bad", "column version_min says 1, the blobs say 7"),
    ]


@pytest.mark.parametrize(
    "column", [{"reward": 0.25}, {"task_id": "another"}, {"harness_digest": "sha256:00"}, {"seed": 2**60 + 1}]
)
def test_a_column_that_was_changed_alone_is_found(store, make_trajectory, column) -> None:
    store.add(make_trajectory(id="good"))
    store.add(make_trajectory(id="bad", seed=2**60))
    with store.engine.begin() as connection:
        connection.execute(rows.update().where(rows.c.id == "bad").values(**column))
    [fault] = check_store(store).faults
    assert fault.trajectory_id == "bad"
    assert "not those that were recorded" in fault.message


def test_tokens_of_another_trajectory_are_found(store, make_call, make_trajectory) -> None:
    store.add(make_trajectory(make_call([1, 2], [3, 4]), id="good"))
    store.add(make_trajectory(make_call([1, 2], [5, 6]), id="bad"))
    with store.engine.begin() as connection:
        of_good = sa.select(bodies.c.tokens).where(bodies.c.trajectory_id == "good").scalar_subquery()
        connection.execute(bodies.update().where(bodies.c.trajectory_id == "bad").values(tokens=of_good))
    [fault] = check_store(store).faults
    assert fault.trajectory_id == "bad"
    assert "not those that were recorded" in fault.message


def rewrite_detail(store: Store, change) -> None:
    """Every detail blob packed again, its checksums right, after `change` of its sections."""
    with store.engine.begin() as connection:
        for name, blob in connection.execute(sa.select(bodies.c.trajectory_id, bodies.c.detail)).all():
            sections = unpack(blob)
            change(sections)
            connection.execute(bodies.update().where(bodies.c.trajectory_id == name).values(detail=pack(sections)))


@pytest.mark.parametrize(
    "change",
    [
        lambda detail: detail.update(patch="another"),
        lambda detail: detail["steps"][0].update(observation="never seen"),
        lambda detail: detail["verdicts"].clear(),
    ],
)
def test_a_detail_that_was_written_over_is_found(store, make_trajectory, change) -> None:
    def write_over(sections: dict[str, bytes]) -> None:
        detail = json.loads(sections["JSON"])
        change(detail)
        sections["JSON"] = json.dumps(detail, separators=(",", ":")).encode()

    store.add(make_trajectory(id="x"))
    rewrite_detail(store, write_over)
    [fault] = check_store(store).faults
    assert "not those that were recorded" in fault.message


def test_a_record_without_a_seal_is_counted(store, make_trajectory) -> None:
    store.add(make_trajectory(id="x"))
    assert check_store(store).unsealed == 0
    rewrite_detail(store, lambda sections: sections.pop("SUMS"))
    assert check_store(store).unsealed == 1


def test_the_sign_of_zero_which_not_every_database_keeps_is_no_change(store, make_trajectory) -> None:
    odd = make_trajectory(reward=-0.0, created_at=-0.0)
    store.add(odd)
    assert check_store(store).ok
    assert store.add(odd) is False


@pytest.mark.parametrize("page", ['{"name": "y"}', "[]", "{" * 5000, '{"name": ' * 990 + "1" + "}" * 990])
def test_a_harness_document_that_is_not_what_its_digest_names_is_found(store, make_trajectory, page) -> None:
    digest = digest_of({"name": "x"})
    store.add(make_trajectory(harness_digest=digest), {"name": "x"})
    with store.engine.begin() as connection:
        connection.execute(documents.update().values(json=page))
    [fault] = check_store(store).faults
    assert fault.message == f"document {digest} is not the JSON that was written"
    with pytest.raises(CorruptError):
        store.get_document(digest)


@pytest.mark.parametrize("column", ["reward", "created_at"])
def test_an_infinite_column_is_corrupt_and_the_others_are_read(tmp_path, make_trajectory, column) -> None:
    with Store.open(tmp_path / "store.db") as store:
        store.add(make_trajectory(id="good"))
        store.add(make_trajectory(id="bad"))
        with store.engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE trajectory SET {column} = 9e999 WHERE id = 'bad'")
        told: list[str] = []
        assert [one.id for one in store.iter(on_corrupt=lambda id, error: told.append(id))] == ["good"]
        assert told == ["bad"]
        assert [fault.trajectory_id for fault in check_store(store).faults] == ["bad"]


def test_a_child_hangs_where_its_parent_was_asked_the_same(store, make_call, make_trajectory) -> None:
    def acted(call: int) -> Step:
        return Step(call, "bash", {}, "")

    calls = make_call([1, 2], [3, 4]), make_call([1, 2, 3, 4, 5], [6])
    store.add(make_trajectory(*calls, steps=(acted(0), acted(1)), id="parent"))

    def child(name: str, prompt: list[int], step: int) -> None:
        call = make_call(prompt, [9])
        store.add(make_trajectory(call, steps=(acted(0),), id=name, parent_id="parent", branch_step=step))

    child("first", [1, 2], 0)
    child("second", [1, 2, 3, 4, 5], 1)
    child("behind", [1, 2, 3, 4, 5, 6, 7], 2)
    assert check_store(store).ok
    child("other", [1, 2, 3, 4, 7], 1)
    child("beyond", [1, 2], 3)
    assert sorted((fault.trajectory_id, fault.message) for fault in check_store(store).faults) == [
        ("beyond", "it goes on from step 3 of parent, which has 2"),
        ("other", "its first prompt is not the one that parent was given at step 1"),
    ]


def test_a_child_behind_the_last_call_goes_on_from_its_context(store, make_call, make_trajectory) -> None:
    store.add(make_trajectory(make_call([1, 2], [3, 4]), id="parent"))
    silent = {"steps": (), "id": "silent", "parent_id": "parent", "branch_step": 2}
    store.add(replace(make_trajectory(**silent), calls=()))

    def child(name: str, prompt: list[int], parent: str, step: int, **changes) -> None:
        call = make_call(prompt, [9], event=changes.pop("event", "append"))
        store.add(make_trajectory(call, steps=(), id=name, parent_id=parent, branch_step=step, **changes))

    child("on", [1, 2, 3, 4, 5], "parent", 2)
    child("on-silent", [1, 2, 3, 4, 5], "silent", 0)
    child("compacted", [1, 9], "parent", 2, event="compacted")
    assert check_store(store).ok
    child("away", [1, 2, 3], "parent", 2)
    child("away-silent", [1, 2, 3], "silent", 0)
    child("task", [1, 2, 3, 4, 5], "parent", 2, task_digest="sha256:another")
    away = "its first prompt does not go on from the last call of parent, and context_event is append"
    assert sorted((fault.trajectory_id, fault.message) for fault in check_store(store).faults) == [
        ("away", away),
        ("away-silent", away),
        ("task", "it goes on from parent, which is of another task"),
    ]


def test_parents_in_a_circle_are_faults(store, make_trajectory) -> None:
    for name, parent in ("a", "b"), ("b", "c"), ("c", "b"):
        store.add(make_trajectory(id=name, parent_id=parent, branch_step=0))
    assert [(fault.trajectory_id, "circle" in fault.message) for fault in check_store(store).faults] == [
        ("a", True),
        ("b", True),
        ("c", True),
    ]


def test_what_was_found_before_a_torn_page_is_told(tmp_path, make_trajectory) -> None:
    path = tmp_path / "torn.db"
    with Store.open(path) as store:
        for number in range(40):
            store.add(make_trajectory(id=f"t{number}"))
        with store.engine.begin() as connection:
            root = connection.exec_driver_sql("SELECT rootpage FROM sqlite_master WHERE name = 'trajectory'").scalar()
            size = connection.exec_driver_sql("PRAGMA page_size").scalar()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * 64)
    with Store.open(path, create=False) as store:
        messages = [fault.message for fault in check_store(store).faults]
    assert any("could not be read" in message for message in messages)
    assert any(message.startswith("not looked at to the end") for message in messages)


def test_damaged_lost_and_unknown_rows_are_found_by_id_and_the_rest_is_checked(store, make_trajectory) -> None:
    for name in "abcd":
        store.add(make_trajectory(id=name))
    with store.engine.begin() as connection:
        connection.execute(bodies.update().where(bodies.c.trajectory_id == "a").values(tokens=b"AGYM"))
        connection.execute(bodies.delete().where(bodies.c.trajectory_id == "b"))
        connection.execute(rows.update().where(rows.c.id == "c").values(termination="exploded"))
    report = check_store(store)
    assert [fault.trajectory_id for fault in report.faults] == ["a", "b", "c"]
    assert check_store(store, TrajectoryFilter(task_id="none")).ok


def test_contract_faults_written_around_the_store_are_found(store, make_call, make_trajectory) -> None:
    store.add(make_trajectory(id="x", steps=()))
    good = make_trajectory().calls
    broken = {
        "spans cover": (replace(good[0], logprobs=np.array([0.5, 0], np.float32)), good[1]),
        "append": (good[0], replace(make_call([1, 2], [9]), context_event=ContextEvent.APPEND)),
    }
    for calls in broken.values():
        encoded = encode_calls(calls)
        with store.engine.begin() as connection:
            connection.execute(bodies.update().values(tokens=encoded.blob))
        assert not check_store(store).ok


@pytest.mark.parametrize(
    ("field", "damage", "message"),
    [
        ("action_mask", lambda mask: ~mask, "action"),
        ("token_ids", lambda ids: ids[::-1].copy(), "not the prefix"),
        ("logprobs", lambda logprobs: logprobs * np.float32(0.5), "logprobs are not its own"),
        ("policy_version", lambda version: version + 1, "version"),
        ("call_index", lambda index: np.zeros_like(index), "in no sequence"),
    ],
)
def test_a_fault_in_the_derivation_itself_would_be_found(
    store, make_trajectory, monkeypatch, field, damage, message
) -> None:
    store.add(make_trajectory())
    derive = check.sequences_of_layout
    monkeypatch.setattr(
        check,
        "sequences_of_layout",
        lambda *args, **kwargs: [
            replace(sequence, **{field: damage(getattr(sequence, field))}) for sequence in derive(*args, **kwargs)
        ],
    )
    assert any(message in fault.message for fault in check_store(store).faults)


def test_a_blob_whose_shared_prefix_is_not_the_longest_is_found(store, make_trajectory) -> None:
    written = make_trajectory()
    store.add(written)
    layout = layout_of(written.calls)
    shorter = replace(
        layout,
        shared=np.array([0, 2]),
        suffix=layout.suffix + np.array([0, 3]),
        stream=np.array([1, 2, 3, 4, 5, 3, 4, 5, 6, 70_000], np.int32),
    )
    blob = encode_calls(written.calls, shorter).blob
    codec.decode_layout(blob)  # consistent in itself
    with store.engine.begin() as connection:
        connection.execute(bodies.update().values(tokens=blob))
    assert any("not the longest" in fault.message for fault in check_store(store).faults)


def test_a_body_without_trajectory_is_found(store) -> None:
    if store.engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL enforces the foreign key for every client")
    connection = store.engine.raw_connection()
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("INSERT INTO trajectory_body VALUES ('lost', x'00', x'00')")
    connection.commit()
    connection.invalidate()
    assert [fault.message for fault in check_store(store).faults] == ["body lost belongs to no trajectory"]


def test_a_parent_and_a_harness_document_that_are_gone_are_faults(store: Store, make_trajectory) -> None:
    digest = digest_of({"name": "x"})
    store.add(make_trajectory(id="parent", harness_digest=digest), {"name": "x"})
    store.add(make_trajectory(id="child", parent_id="parent", branch_step=0, harness_digest=digest))
    assert check_store(store).ok
    with store.engine.begin() as connection:
        connection.execute(documents.delete())
        connection.execute(rows.delete().where(rows.c.id == "parent"))
    store.add(make_trajectory(id="odd", parent_id="\ud7ff", branch_step=0, created_at=2e9))
    assert [(fault.trajectory_id, fault.message) for fault in check_store(store).faults] == [
        ("", f"harness document {digest}, which 1 of its trajectories name, is not in this store"),
        ("child", "it goes on from parent, which is not in this store"),
        ("odd", "it goes on from \ud7ff, which is not in this store"),
    ]
