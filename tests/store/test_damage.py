"""Whatever a blob holds, it is either what was written or named and skipped: never another error, never a poisoned batch."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.store import Store, TrajectoryFilter
from agentgym.store.check import check_store
from agentgym.store.codec import decode_calls, decode_layout
from agentgym.store.container import pack, unpack
from agentgym.store.detail import decode_detail, detail_document
from agentgym.store.errors import CorruptError
from agentgym.store.records import Termination, digest_of
from agentgym.store.rows import encode_trajectory
from agentgym.store.schema import trajectory_body as bodies
from agentgym.store.sequences import sequences_of_layout


@pytest.fixture(scope="module")
def blobs(make_call, make_trajectory) -> tuple[bytes, bytes]:
    calls = make_call([1, 2], [3, 4], (7, 1), (8, 1)), make_call([1, 2, 3, 9], [70_000, 6], event="compacted")
    body = encode_trajectory(make_trajectory(*calls)).body
    return body["tokens"], body["detail"]


def read_all(tokens: bytes) -> None:
    """Everything the trainer, the check and a viewer do with a token blob."""
    layout = decode_layout(tokens)
    derived = sequences_of_layout(layout, trajectory_id="x", reward=1.0, termination=Termination.SUBMITTED)
    for sequence in derived:
        assert len(sequence.token_ids) == len(sequence.action_mask) == len(sequence.logprobs)
        assert (sequence.token_ids >= 0).all()
    decode_calls(tokens)


def test_every_truncation_and_every_flipped_byte_is_noticed(blobs) -> None:
    tokens, detail = blobs
    for blob, decode in ((tokens, read_all), (detail, decode_detail)):
        for length in range(len(blob)):
            with pytest.raises(CorruptError):
                decode(blob[:length])
        for at in range(len(blob)):
            with pytest.raises(CorruptError):
                decode(blob[:at] + bytes([blob[at] ^ 0x41]) + blob[at + 1 :])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_sections_of_any_content_under_a_right_checksum_are_read_or_refused(blobs, data) -> None:
    """A writer with a bug seals what it wrote; lengths that do not fit each other must not become wrong slices."""
    sections = unpack(blobs[0])
    name = data.draw(st.sampled_from([*sections, "CALL"]))
    raw = bytearray(sections[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(raw) - 4)))
        change = data.draw(st.sampled_from(["word", "cut", "grow", "byte"]))
        if change == "word" and len(raw) >= 4:
            raw[at : at + 4] = struct.pack(
                "<I", data.draw(st.sampled_from([0, 1, 2, 5, 255, 2**31 - 1, 2**31, 2**32 - 1]))
            )
        elif change == "byte" and raw:
            raw[at] = data.draw(st.integers(0, 255))
        elif change == "cut":
            del raw[at : at + data.draw(st.integers(1, 8))]
        else:
            raw[at:at] = bytes(data.draw(st.integers(1, 8)))
    changed = dict(sections)
    changed[name] = bytes(raw)
    if data.draw(st.booleans()) and data.draw(st.booleans()):
        del changed[data.draw(st.sampled_from(list(changed)))]
    with contextlib.suppress(CorruptError):
        read_all(pack(changed))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(junk: bytes) -> None:
    for decode in (read_all, decode_detail):
        with pytest.raises(CorruptError):
            decode(junk)


@pytest.mark.parametrize(
    "document", [b"", b"[]", b"{}", b'{"steps": 1}', b'{"steps": [{}]}', b"\xff", b'{"steps": [1]}', b"[" * 5000]
)
def test_detail_that_is_no_detail_is_refused(document: bytes) -> None:
    with pytest.raises(CorruptError):
        decode_detail(pack({"JSON": document}))


@pytest.mark.parametrize(
    "change",
    [
        {"patch": 17},
        {"verdicts": None},
        {"verdicts": {"t": 1}},
        {"metadata": [1]},
        {"reward_vector": {"a": "1"}},
        {"steps": {}},
        {"steps": [{"call_index": 0.5, "tool": "a", "arguments": {}, "observation": ""}]},
        {"steps": [{"call_index": 0, "tool": "a", "arguments": 5, "observation": ""}]},
        {"steps": [{"call_index": 0, "tool": "a", "arguments": {}, "observation": None}]},
    ],
)
def test_a_field_of_the_detail_of_another_kind_is_refused(make_trajectory, change) -> None:
    document = json.loads(json.dumps(detail_document(make_trajectory())))
    decode_detail(pack({"JSON": json.dumps(document).encode()}))
    with pytest.raises(CorruptError, match=next(iter(change)) if "steps" not in change else "steps|of a Step"):
        decode_detail(pack({"JSON": json.dumps(document | change).encode()}))


@pytest.mark.parametrize("page", [1, 2, 512])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("task_id", "CAST(x'74ff41' AS TEXT)"),
        ("parent_id", "CAST(x'ff' AS TEXT)"),
        ("policy", "x'00ff'"),
        ("reward", "'much'"),
        ("tokens", "'x'"),
        ("branch_step", "99999999999"),
        ("termination", "'vanished'"),
        ("id", "CAST(x'31ff' AS TEXT)"),
        ("id", "x'31'"),
        ("created_at", "'later'"),
    ],
)
def test_a_row_that_no_writer_wrote_is_named_and_the_others_are_listed(
    tmp_path, make_trajectory, monkeypatch, page, column, value
) -> None:
    monkeypatch.setattr("agentgym.store.stream.SUMMARY_PAGE", page)
    monkeypatch.setattr("agentgym.store.stream.BODY_PAGE", page)
    with Store.open(tmp_path / "store.db") as store:
        for i in range(5):
            store.add(make_trajectory(id=str(i), created_at=float(i)))
        with contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as raw:
            raw.execute(f"UPDATE trajectory SET {column} = {value} WHERE id = '1'")
            raw.commit()
        name = {"CAST(x'31ff' AS TEXT)": "1\\xff", "x'31'": "b'1'"}.get(value, "1")
        readers = (store.query, store.iter, store.iter_sequences, store.iter_blobs)
        for newest_first in (False, True):
            for read in readers:
                told: list[str] = []
                where = TrajectoryFilter(newest_first=newest_first)
                assert len(list(read(where, on_corrupt=lambda id_, _, told=told: told.append(id_)))) == 4
                assert told == [name]
        if column != "id":
            with pytest.raises(
                CorruptError, match=f"trajectory 1: .*{column if column != 'termination' else 'vanished'}"
            ):
                store.get("1")
        report = check_store(store)
        assert [fault.trajectory_id for fault in report.faults if fault.trajectory_id] == [name]
        assert report.trajectories == 4


def test_a_document_that_is_not_what_was_written_is_corrupt(tmp_path, make_trajectory) -> None:
    with Store.open(tmp_path / "store.db") as store:
        for name, value in (("a", "CAST(x'7b22ff227d' AS TEXT)"), ("b", "'{'")):
            digest = digest_of({"name": name})
            store.add(make_trajectory(id=name, harness_digest=digest), {"name": name})
            with contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as raw:
                raw.execute(f"UPDATE document SET json = {value} WHERE digest = '{digest}'")
                raw.commit()
            with pytest.raises(CorruptError, match=f"document {digest} is not the JSON"):
                store.get_document(digest)


def test_a_stream_of_many_skips_exactly_the_damaged_ones(store: Store, make_trajectory) -> None:
    chance = np.random.default_rng(3)
    for i in range(60):
        store.add(make_trajectory(id=f"{i:02}", created_at=float(i)))
    damaged = {f"{i:02}" for i in chance.choice(60, 20, replace=False).tolist()}
    with store.engine.begin() as connection:
        for name in damaged:
            column = bodies.c.tokens if int(name) % 2 else bodies.c.detail
            [blob] = connection.execute(
                bodies.select().with_only_columns(column).where(bodies.c.trajectory_id == name)
            ).one()
            at = int(chance.integers(len(blob)))
            broken = blob[:at] if int(name) % 3 else blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :]
            connection.execute(bodies.update().where(bodies.c.trajectory_id == name).values({column: broken}))
    told: list[str] = []
    read = [one.id for one in store.iter(TrajectoryFilter(), on_corrupt=lambda name, _: told.append(name))]
    assert set(told) == damaged
    assert read == sorted({f"{i:02}" for i in range(60)} - damaged)
