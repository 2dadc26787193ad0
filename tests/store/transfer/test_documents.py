"""Out of one store and into another: equal, or said why not."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agentgym.store import Store, TrajectoryFilter
from agentgym.store.check import check_store
from agentgym.store.detail import detail_document
from agentgym.store.filter import RECORD_FIELDS
from agentgym.store.records import Sampling, Step, Termination, digest_of
from agentgym.store.transfer import export, import_file


def plain(trajectory):
    """Everything of a trajectory in comparable form, arrays as bytes; NaN compares by its spelling."""
    calls = [
        (
            (call.prompt_token_ids.dtype, call.prompt_token_ids.tobytes()),
            (call.generation_token_ids.dtype, call.generation_token_ids.tobytes()),
            (call.logprobs.dtype, call.logprobs.tobytes()),
            (call.sampling, call.policy_versions, call.finish_reason, call.context_event),
            (call.started_at, call.duration),
        )
        for call in trajectory.calls
    ]
    return [getattr(trajectory, name) for name in RECORD_FIELDS], json.dumps(detail_document(trajectory)), calls


HARNESS = {"profile": {"name": "p"}}


@pytest.fixture
def awkward(make_call, make_trajectory):
    """Trajectories with everything that formats tend to lose."""
    odd = replace(
        make_call([1, 2, 9], [3], (2**31 - 1, 1), event="compacted"),
        sampling=Sampling(temperature=0.1, top_p=0.30000000000000004, top_k=7, seed=-(2**63)),
        logprobs=np.array([-0.1], np.float32),
    )
    hostile = Step(
        2, "edit", {"x": float("nan"), "deep": [{"\ud800": None}], "n": 1.5}, "\ud800 \0 \x1b[0m", exit_code=1
    )
    calls = make_call([1, 2], [3, 4], (7, 1), (8, 1)), make_call([1, 2, 3, 4, 5], []), odd
    found = [
        make_trajectory(
            *calls, id="a" * 32, steps=(*make_trajectory().steps, hostile), patch="\udcff", created_at=1.25
        ),
        make_trajectory(
            make_call([1, 2, 9], [6]), id="b" * 32, steps=(), parent_id="a" * 32, branch_step=2, created_at=2.0
        ),
        replace(
            make_trajectory(id="c" * 32, created_at=3.0),
            calls=(),
            steps=(),
            reward=None,
            termination=Termination.ENVIRONMENT_FAILURE,
            error="the disk was full",
        ),
    ]
    return [replace(one, harness_digest=digest_of(HARNESS)) for one in found]


@pytest.fixture
def full(tmp_path: Path, awkward):
    with Store.open(tmp_path / "from.db") as opened:
        for one in awkward:
            opened.add(one, HARNESS)
        yield opened


@pytest.mark.parametrize("format", ["json", "atif"])
@pytest.mark.parametrize("target", ["one.jsonl", "many"])
def test_what_comes_back_from_an_export_is_equal(full, awkward, tmp_path, format, target) -> None:
    report = export(full, TrajectoryFilter(), format, tmp_path / target)
    assert (report.trajectories, report.left_out) == (3, {})
    with Store.open(tmp_path / "to.db") as other:
        taken = import_file(other, tmp_path / target)
        assert (taken.added, taken.known, taken.refused) == (3, 0, [])
        for one in awkward:
            assert plain(other.get(one.id)) == plain(one)
        assert check_store(other).ok
        again = import_file(other, tmp_path / target)
        assert (again.added, again.known) == (0, 3)
        assert other.get_document(digest_of(HARNESS)) == HARNESS


def test_a_run_may_be_renamed_on_the_way_in(full, tmp_path) -> None:
    export(full, TrajectoryFilter(limit=1), "json", tmp_path / "x.jsonl")
    with Store.open(tmp_path / "to.db") as other:
        import_file(other, tmp_path / "x.jsonl", run_id="theirs")
        assert [one.run_id for one in other.query()] == ["theirs"]


def test_a_broken_line_is_named_and_the_others_are_taken(full, tmp_path) -> None:
    export(full, TrajectoryFilter(), "json", tmp_path / "x.jsonl")
    first, second, third = (tmp_path / "x.jsonl").read_text().splitlines()
    wrong = json.loads(second)
    wrong["calls"][0]["logprobs"] = []
    newer = json.loads(third) | {"version": 2}
    lines = [first, json.dumps(wrong), json.dumps(newer), "{", '{"a": 1}', "[]", "", second[:-2] + "x}"]
    (tmp_path / "y.jsonl").write_text("\n".join(lines))
    with Store.open(tmp_path / "to.db") as other:
        report = import_file(other, tmp_path / "y.jsonl")
        assert (report.added, other.count()) == (1, 1)
    places = [one.split(": ")[0].rpartition(":")[2] for one in report.refused]
    assert places == ["2", "3", "4", "5", "6", "8"]
    assert "logprobs for 1 generated tokens" in report.refused[0]
    assert "version 2" in report.refused[1]
    assert "neither an agentgym document nor ATIF, but an object with ['a']" in report.refused[3]


@pytest.mark.parametrize(
    "change", [{"shared": 1}, {"suffix_token_ids": [-1]}, {"suffix_token_ids": [1.5]}, {"suffix_token_ids": [[1]]},
               {"generation_token_ids": [2**31]}, {"finish_reason": "bored"}, {"sampling": {"heat": 1}},
               {"shared": 0.0}, {"suffix_token_ids": [True]}, {"logprobs": ["-0.1", -0.2]}, {"logprobs": [False, -0.2]},
               {"started_at": None}, {"started_at": "0"}, {"duration": True}, {"started_at": 1e300}, {"sampling": []},
               {"sampling": {"temperature": "1"}}, {"sampling": {"top_k": 7.0}}, {"sampling": {"seed": True}},
               {"policy_versions": [{"version": 1.0, "start": 0, "end": 2}]}, {"policy_versions": {}}, {"duration": 2**53 + 1},
               {"duration": 10**400}, {"sampling": {"temperature": 10**400}}, {"logprobs": [-(10**400), -1]},
               {"policy_versions": [{"version": 10**400, "start": 0, "end": 2}]},
               {"policy_versions": [{"version": 0, "start": 0, "end": 10**400}]}]
)  # fmt: skip
def test_what_is_no_call_is_refused(full, tmp_path, change) -> None:
    export(full, TrajectoryFilter(limit=1), "json", tmp_path / "x.jsonl")
    document = json.loads((tmp_path / "x.jsonl").read_text())
    document["calls"][0] |= change
    (tmp_path / "x.jsonl").write_text(json.dumps(document))
    with Store.open(tmp_path / "to.db") as other:
        report = import_file(other, tmp_path / "x.jsonl")
        assert (len(report.refused), other.count()) == (1, 0)


def test_an_export_that_fails_leaves_no_file_that_looks_whole(full, tmp_path) -> None:
    def breaks(_: object):
        raise RuntimeError("no words")

    with pytest.raises(RuntimeError):
        export(full, TrajectoryFilter(), "atif", tmp_path / "x.jsonl", transcribe=breaks)
    assert not list(tmp_path.glob("*x.jsonl*"))


def test_spans_of_a_foreign_kind_never_pass_the_contract(full, tmp_path) -> None:
    export(full, TrajectoryFilter(limit=1), "json", tmp_path / "x.jsonl")
    document = json.loads((tmp_path / "x.jsonl").read_text())
    document["calls"][0]["policy_versions"] = [{"version": 1, "start": 0, "end": 1}]
    (tmp_path / "x.jsonl").write_text(json.dumps(document))
    with Store.open(tmp_path / "to.db") as other:
        [refused] = import_file(other, tmp_path / "x.jsonl").refused
    assert "cover 1 of 2" in refused


@pytest.mark.parametrize(
    ("field", "value"),
    [("id", 5), ("reward", True), ("created_at", "x"), ("verdicts", []), ("steps", {}), ("seed", 1.5), ("patch", None),
     ("version", 1.0), ("version", True), ("reward_vector", {"a": "1"}), ("timings", {"start": None}), ("verdicts", {"t": 1}),
     ("created_at", 1e12), ("created_at", -1), ("reward", 10**400), ("reward", 2**53 + 1), ("seed", 10**400), ("calls", {}),
     ("harness", ["a"]), ("harness", [["a", 1]]), ("harness", "abc"), ("harness", 5), ("harness", [])],
)  # fmt: skip
def test_fields_of_another_kind_are_refused(full, tmp_path, field, value) -> None:
    export(full, TrajectoryFilter(limit=1), "json", tmp_path / "x.jsonl")
    document = json.loads((tmp_path / "x.jsonl").read_text()) | {field: value}
    (tmp_path / "x.jsonl").write_text(json.dumps(document))
    with Store.open(tmp_path / "to.db") as other:
        [refused] = import_file(other, tmp_path / "x.jsonl").refused
        assert other.count() == 0
    assert field in refused or field == "steps"


@pytest.mark.parametrize(
    "change",
    [
        {"valid": 1},
        {"exit_code": "1"},
        {"duration": None},
        {"truncated": "no"},
        {"tree_hash": 5},
        {"arguments": []},
        {"tool": 1},
    ],
)
def test_a_step_of_another_kind_is_refused(full, tmp_path, change) -> None:
    export(full, TrajectoryFilter(limit=1), "json", tmp_path / "x.jsonl")
    document = json.loads((tmp_path / "x.jsonl").read_text())
    document["steps"][0] |= change
    (tmp_path / "x.jsonl").write_text(json.dumps(document))
    with Store.open(tmp_path / "to.db") as other:
        [refused] = import_file(other, tmp_path / "x.jsonl").refused
    assert f"{next(iter(change))} of a Step" in refused


def test_what_is_nested_deeper_than_its_readers_go_is_refused(full, tmp_path) -> None:
    export(full, TrajectoryFilter(limit=1), "json", tmp_path / "x.jsonl")
    document = json.loads((tmp_path / "x.jsonl").read_text())
    step = document["steps"][0] | {"arguments": "@"}
    lines = [
        json.dumps(document | change).replace('"@"', '{"a":' * depth + "1" + "}" * depth)
        for change in ({"metadata": "@"}, {"harness": "@"}, {"steps": [step]})
        for depth in (201, 900, 984, 988, 100_000)
    ]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    with Store.open(tmp_path / "to.db") as other:
        assert (len(import_file(other, tmp_path / "x.jsonl").refused), other.count()) == (len(lines), 0)


def ours_as_atif(full, tmp_path: Path) -> dict:
    export(full, TrajectoryFilter(limit=1), "atif", tmp_path / "x.jsonl")
    return json.loads((tmp_path / "x.jsonl").read_text())


@pytest.mark.parametrize("index", [0, 5, "1", None])
def test_our_atif_whose_steps_are_not_each_there_once_is_refused(full, tmp_path, index) -> None:
    document = ours_as_atif(full, tmp_path)
    asked = next(step for step in document["steps"] if step["source"] == "agent")
    own = json.loads(asked["extra"]["agentgym"])
    own["steps"][1]["index"] = index
    asked["extra"]["agentgym"] = json.dumps(own)
    (tmp_path / "x.jsonl").write_text(json.dumps(document))
    with Store.open(tmp_path / "to.db") as other:
        assert (len(import_file(other, tmp_path / "x.jsonl").refused), other.count()) == (1, 0)


@pytest.mark.parametrize("shown", [{"reward": 0.0}, {"reward": None}, {"termination": "max_steps"}, {"task_id": "x"}])
def test_our_atif_that_shows_another_outcome_than_it_holds_is_refused(full, tmp_path, shown) -> None:
    document = ours_as_atif(full, tmp_path)
    document["extra"] |= shown
    (tmp_path / "x.jsonl").write_text(json.dumps(document))
    with Store.open(tmp_path / "to.db") as other:
        [refused] = import_file(other, tmp_path / "x.jsonl").refused
    assert f"{next(iter(shown))} is" in refused


def test_what_is_no_text_is_refused_and_the_rest_is_taken(full, tmp_path) -> None:
    export(full, TrajectoryFilter(), "json", tmp_path / "x.jsonl")
    first, second, _ = (tmp_path / "x.jsonl").read_bytes().splitlines()
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_bytes(b"\xff{}")
    (folder / "b.jsonl").write_bytes(first + b'\n{"a": "\xff"}\n' + second)
    (folder / "c.json").mkdir()
    with Store.open(tmp_path / "to.db") as other:
        report = import_file(other, folder)
    assert report.added == 2
    assert [one.split(": ")[0].rpartition("/")[2] for one in report.refused] == ["a.json", "b.jsonl:2", "c.json"]


def test_a_harness_document_that_its_digest_does_not_name_is_refused(full, tmp_path) -> None:
    """It would stand for the harness of every other trajectory with this digest."""
    export(full, TrajectoryFilter(limit=1), "json", tmp_path / "x.jsonl")
    document = json.loads((tmp_path / "x.jsonl").read_text())
    document["harness"]["profile"]["name"] = "q"
    (tmp_path / "x.jsonl").write_text(json.dumps(document))
    with Store.open(tmp_path / "to.db") as other:
        [refused] = import_file(other, tmp_path / "x.jsonl").refused
        assert other.count() == 0
    assert "harness document is not the one" in refused


@pytest.mark.parametrize(
    "words",
    [5, {}, {"opening": [], "turns": 5}, {"opening": [{"content": "no role"}], "turns": []}, {"opening": [], "turns": [[5]]},
     {"opening": [], "turns": [[{"role": "user", "content": 5}]]}, {"opening": [], "turns": [], "tools": [5]}],
)  # fmt: skip
@pytest.mark.parametrize("format", ["atif", "sft"])
def test_words_that_are_no_transcript_end_no_export(tmp_path, make_trajectory, words, format) -> None:
    with Store.open(tmp_path / "from.db") as store:
        store.add(make_trajectory(metadata={"transcript": words}))
        report = export(store, TrajectoryFilter(), format, tmp_path / "x.jsonl")
    assert (report.trajectories, report.left_out.total()) == ((1, 0) if format == "atif" else (0, 1))


@pytest.mark.parametrize("format", ["json", "atif", "sft", "predictions"])
@pytest.mark.parametrize("error", [TypeError, ValueError, KeyError, AttributeError, RecursionError])
def test_one_that_cannot_be_written_ends_no_export(tmp_path, make_trajectory, monkeypatch, format, error) -> None:
    module = sys.modules[export.__module__]
    written = module.dumps

    def refuses(document):
        if "bad" in json.dumps(document):
            raise error("odd")
        return written(document)

    monkeypatch.setattr(module, "dumps", refuses)
    words = {"opening": [{"role": "user", "content": "q"}], "turns": [], "tools": []}
    with Store.open(tmp_path / "from.db") as store:
        for name in ("a", "bad", "c"):
            store.add(make_trajectory(id=name, task_id=name, metadata={"transcript": words}))
        report = export(store, TrajectoryFilter(), format, tmp_path / "x.jsonl")
    assert (report.trajectories, report.left_out.total()) == (2, 1)
    assert error.__name__ in next(iter(report.left_out))
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 2


def test_an_id_that_is_too_long_for_a_file_gets_a_shorter_name_of_its_own(tmp_path, make_trajectory) -> None:
    with Store.open(tmp_path / "from.db") as store, Store.open(tmp_path / "to.db") as other:
        for name in ("é" * 64, "é" * 63 + "e", "short"):
            store.add(make_trajectory(id=name))
        export(store, TrajectoryFilter(), "json", tmp_path / "out")
        assert (tmp_path / "out" / "short.json").exists()
        assert import_file(other, tmp_path / "out").added == 3


def test_an_id_that_another_trajectory_has_is_refused_and_the_rest_is_taken(full, tmp_path) -> None:
    export(full, TrajectoryFilter(), "json", tmp_path / "x.jsonl")
    first, *rest = (tmp_path / "x.jsonl").read_text().splitlines()
    changed = json.dumps(json.loads(first) | {"task_id": "another"})
    (tmp_path / "y.jsonl").write_text("\n".join([first, changed, *rest]))
    with Store.open(tmp_path / "to.db") as other:
        report = import_file(other, tmp_path / "y.jsonl")
    assert (report.added, report.known) == (3, 0)
    assert "taken by a different trajectory" in report.refused[0]


def test_a_document_is_known_only_as_itself(tmp_path, make_trajectory) -> None:
    """Given an id that begins another's, or another trajectory under it, then neither counts as known."""
    marked = make_trajectory(id="ab", created_at=1.0, metadata={"imported": {"format": "x"}})
    with Store.open(tmp_path / "one.db") as one:
        one.add(marked)
        one.add(make_trajectory(id="zz", created_at=2.0))
        export(one, TrajectoryFilter(), "json", tmp_path / "x.jsonl")
    with Store.open(tmp_path / "two.db") as two:
        two.add(make_trajectory(id="abcd", created_at=1.0))
        assert import_file(two, tmp_path / "x.jsonl").added == 2
        assert two.get("ab").id == "ab"
    with Store.open(tmp_path / "three.db") as three:
        three.add(replace(marked, reward=0.0 if marked.reward else 1.0))
        report = import_file(three, tmp_path / "x.jsonl")
        assert (report.added, report.known, len(report.refused)) == (1, 0, 1)
