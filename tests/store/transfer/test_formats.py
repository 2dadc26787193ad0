"""What other people's tools make of an export: harbor's models, Arrow, a chat template, SWE-bench's evaluation."""

from __future__ import annotations

import json
import os
import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agentgym.store import Store, TrajectoryFilter
from agentgym.store.check import check_store
from agentgym.store.records import Step, Termination
from agentgym.store.sequences import sequences
from agentgym.store.transfer import FORMATS, ExportReport, Transcript, TransferError, export, import_file, stream
from agentgym.store.transfer import parquet as parquet_format


@pytest.fixture
def store(tmp_path: Path):
    with Store.open(tmp_path / "store.db") as opened:
        yield opened


def told(trajectory) -> Transcript:
    opening = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Mend it."}]
    call = {"type": "function", "id": "call_0", "function": {"name": "bash", "arguments": {"command": "ls"}}}
    turns = [
        [{"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [call]},
         {"role": "tool", "tool_call_id": "call_0", "name": "bash", "content": "a.py"}],
        [{"role": "assistant", "content": "Done."}],
    ]  # fmt: skip
    return Transcript(opening, turns, [{"type": "function", "function": {"name": "bash", "parameters": {}}}])


def test_harbor_takes_what_is_exported_as_atif(store, make_call, make_trajectory, tmp_path, harbor_faults) -> None:
    hostile = Step(0, "bash", {"x": float("inf"), "\ud800": "\udfff"}, "\ud800\0", exit_code=1)
    store.add(make_trajectory(id="a", created_at=1.0))
    store.add(make_trajectory(make_call([1], [2]), id="b", steps=(hostile,), patch="\udcff", created_at=2.0))
    failed = make_trajectory(id="c", steps=(), reward=None, termination=Termination.ENVIRONMENT_FAILURE, created_at=3.0)
    store.add(replace(failed, calls=(), error="no disk"))
    export(store, TrajectoryFilter(), "atif", tmp_path / "x.jsonl", transcribe=told)
    assert harbor_faults(tmp_path / "x.jsonl") == []
    first = json.loads((tmp_path / "x.jsonl").read_text().splitlines()[0])
    sources = [(step["source"], step["message"]) for step in first["steps"]]
    assert sources == [("system", "Be brief."), ("user", "Mend it."), ("agent", "I look."), ("agent", "Done.")]
    agent = first["steps"][2]
    assert agent["metrics"]["completion_token_ids"] == [4, 5]
    assert agent["metrics"]["prompt_token_ids"] == [1, 2, 3]
    assert agent["tool_calls"][0]["arguments"] == {"command": "ls"}
    assert agent["reasoning_content"] == "Hm."
    assert (first["extra"]["reward"], first["final_metrics"]["total_completion_tokens"]) == (1.0, 3)


def test_what_a_child_inherits_is_copied_context(store, make_trajectory, tmp_path, harbor_faults) -> None:
    child = make_trajectory(id="b", parent_id="a", branch_step=1)
    store.add(child)

    def words(trajectory) -> Transcript:
        plain = told(trajectory)
        return Transcript([*plain.opening, *plain.turns[0]], plain.turns)

    export(store, TrajectoryFilter(), "atif", tmp_path / "x.jsonl", transcribe=words)
    assert harbor_faults(tmp_path / "x.jsonl") == []
    steps = json.loads((tmp_path / "x.jsonl").read_text())["steps"]
    assert [step.get("is_copied_context") for step in steps] == [None, None, True, None, None]
    assert steps[2]["observation"]["results"] == [{"content": "a.py"}]
    with Store.open(tmp_path / "to.db") as other:
        import_file(other, tmp_path / "x.jsonl")
        assert other.add(child) is False


def test_the_check_of_harbors_models_can_fail(tmp_path, harbor_faults) -> None:
    (tmp_path / "x.jsonl").write_text('{"schema_version": "ATIF-v1.7", "agent": {"name": "x"}, "steps": []}')
    assert len(harbor_faults(tmp_path / "x.jsonl")) == 1


def test_real_atif_comes_in_with_its_tokens_or_as_no_evidence(store, shared, tmp_path, harbor_faults) -> None:
    folder = shared / "data" / "trajectories" / "atif"
    taken = {path.name: import_file(store, path) for path in sorted(folder.glob("*.json"))}
    refused = {name for name, report in taken.items() if report.refused}
    assert refused == {name for name in taken if name.endswith(".traces.json")}  # another format
    assert all(report.added == 1 for name, report in taken.items() if name not in refused)
    assert check_store(store).ok

    with_tokens = store.get(taken["terminus_2__hello-world-context-summarization.trajectory.json"].ids[0])
    document = json.loads((folder / "terminus_2__hello-world-context-summarization.trajectory.json").read_text())
    agents = [step for step in document["steps"] if step["source"] == "agent" and step.get("llm_call_count") != 0]
    metrics = [step["metrics"] for step in agents]
    assert [call.generation_token_ids.tolist() for call in with_tokens.calls] == [
        one["completion_token_ids"] for one in metrics
    ]
    assert [call.prompt_token_ids.tolist() for call in with_tokens.calls] == [
        one["prompt_token_ids"] for one in metrics
    ]
    assert with_tokens.calls[0].sampling.temperature == 0.7
    assert with_tokens.reward is None

    text_only = store.get(taken["openhands__hello-world.trajectory.json"].ids[0])
    assert taken["openhands__hello-world.trajectory.json"].without_tokens == 1
    assert [step.tool for step in text_only.steps] == ["str_replace_editor", "finish"]
    assert store.count(TrajectoryFilter(trainable=True)) == 0

    export(store, TrajectoryFilter(), "atif", tmp_path / "again.jsonl")
    assert harbor_faults(tmp_path / "again.jsonl") == []
    copied = store.get(
        taken["terminus_2__hello-world-context-summarization.trajectory.summarization-1-answers.json"].ids[0]
    )
    assert len(copied.calls) == 1  # the rest is another trajectory's

    again = [import_file(store, path) for path in sorted(folder.glob("*.trajectory.json"))]
    assert all((one.added, one.known) == (0, 1) for one in again)


def atif(*steps: dict, agent: dict | None = None, **fields) -> dict:
    """A document of another program; by default one question and one answer."""
    steps = steps or ({"source": "user", "message": "q1"}, {"source": "agent", "message": "a1"})
    return {
        "schema_version": "ATIF-v1.7",
        "session_id": "s",
        "agent": {"name": "x", "version": "1", "model_name": "m"} | (agent or {}),
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
    } | fields


def acted(**fields) -> dict:
    call = {"tool_call_id": "1", "function_name": "f", "arguments": {}}
    step = {"source": "agent", "message": "a", "tool_calls": [call]}
    return step | {"tool_calls": [call | fields]} if fields.keys() <= call.keys() else step | fields


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (atif(extra=[]), r"extra is []"),
        (atif(session_id=[1]), "session_id is [1]"),
        (atif(steps={}), "steps is {}"),
        (atif(agent={"tool_definitions": [5]}), "tool_definitions is [5]"),
        (atif(agent={"name": 5}), "policy of a Trajectory is 5"),
        (atif({"source": "robot", "message": "q"}, acted()), "source is 'robot'"),
        (atif(acted(message={})), "a message or an observation is {}"),
        (atif(acted(message=None)), "a message or an observation is None"),
        (atif(acted(timestamp=5)), "timestamp is 5"),
        (atif(acted(is_copied_context="no")), "is_copied_context is 'no'"),
        (atif(acted(observation={"results": [{"content": 0}]})), "content is 0"),
        (atif(acted(observation={"results": [{"content": {}}]})), "content is {}"),
        (atif(acted(observation={"results": [{"source_call_id": "z", "content": "o"}]})), "source_call_id 'z'"),
        (atif(acted(arguments=["ab", ["c", 1]])), "arguments of a Step is ['ab'"),
        (atif(acted(arguments=[])), "arguments of a Step is []"),
        (atif(acted(function_name=5)), "tool of a Step is 5"),
        (atif(acted(function_name=None)), "tool of a Step is None"),
        (
            atif(acted(metrics={"prompt_token_ids": [1], "completion_token_ids": [2], "logprobs": [-(10**400)]})),
            "OverflowError",
        ),
    ],
)
def test_values_of_foreign_atif_are_refused_rather_than_converted(store, tmp_path, document, reason) -> None:
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, [document, atif()])))
    report = import_file(store, tmp_path / "x.jsonl")
    assert report.added == 1
    assert reason in report.refused[0]


def test_what_a_program_means_otherwise_in_its_own_extra_is_not_taken_for_ours(store, tmp_path) -> None:
    odd = {
        "reward": ["1.0", True, 10**400, {"score": 1}],
        "task_id": [5, {"a": 1}],
        "termination": ["end_turn", 5],
        "temperature": ["0.7", [1], True],
    }
    documents = [
        atif(extra={name: value}, session_id=f"{name}{k}", agent={"extra": {name: value}})
        for name, values in odd.items()
        for k, value in enumerate(values)
    ]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, documents)))
    report = import_file(store, tmp_path / "x.jsonl")
    assert (report.added, report.refused) == (len(documents), [])
    for one in store.iter():
        assert (one.reward, one.termination, one.calls[0].sampling.temperature) == (None, Termination.SUBMITTED, 1.0)
        assert one.task_id == one.metadata["imported"]["session_id"]


def test_what_is_said_between_the_turns_of_foreign_atif_stays_there(store, tmp_path, harbor_faults) -> None:
    told = {"results": [{"source_call_id": "1", "content": "o"}]}
    (tmp_path / "x.json").write_text(
        json.dumps(
            atif(
                {"source": "user", "message": "q1"},
                acted(observation=told),
                {"source": "system", "message": "note", "observation": {"results": [{"content": "seen"}]}},
                {"source": "user", "message": "q2"},
                {"source": "agent", "message": "a2"},
            )
        )
    )
    import_file(store, tmp_path / "x.json")
    export(store, TrajectoryFilter(), "sft", tmp_path / "sft.jsonl")
    messages = json.loads((tmp_path / "sft.jsonl").read_text())["messages"]
    assert [(one["role"], one["content"]) for one in messages] == [
        ("user", "q1"),
        ("assistant", "a"),
        ("tool", "o"),
        ("system", "note\nseen"),
        ("user", "q2"),
        ("assistant", "a2"),
    ]
    export(store, TrajectoryFilter(), "atif", tmp_path / "atif.jsonl")
    assert harbor_faults(tmp_path / "atif.jsonl") == []
    steps = json.loads((tmp_path / "atif.jsonl").read_text())["steps"]
    assert [(one["source"], one["message"]) for one in steps] == [
        ("user", "q1"),
        ("agent", "a"),
        ("system", "note\nseen"),
        ("user", "q2"),
        ("agent", "a2"),
    ]


def test_a_verdict_makes_foreign_tokens_evidence(store, shared, tmp_path) -> None:
    source = shared / "data" / "trajectories" / "atif" / "terminus_2__hello-world-context-summarization.trajectory.json"
    document = json.loads(source.read_text())
    document["extra"] = {"reward": 1.0, "task_id": "hello"}
    spoken = [step for step in document["steps"] if step["source"] == "agent"]
    (tmp_path / "x.json").write_text(json.dumps(document))
    import_file(store, tmp_path / "x.json")
    del spoken[1]["metrics"]["logprobs"]
    (tmp_path / "y.json").write_text(json.dumps(document))
    assert import_file(store, tmp_path / "y.json").without_tokens == 1
    [only] = store.query(TrajectoryFilter(trainable=True))
    assert (only.task_id, only.reward) == ("hello", 1.0)


def test_parquet_holds_the_sequences_bit_for_bit_in_the_layout_of_datasets(
    store, make_call, make_trajectory, tmp_path, monkeypatch
) -> None:
    arrow = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (pip install 'agentgym[parquet]')")
    monkeypatch.setattr(parquet_format, "GROUP_TOKENS", 16)
    monkeypatch.setattr(parquet_format, "SHARD_TOKENS", 32)
    compacted = make_call([1, 2], [3, 4]), make_call([1, 9], [5], event="compacted")
    made = [make_trajectory(*compacted, id=f"{i:02}", steps=(), created_at=float(i)) for i in range(9)]
    made += [make_trajectory(id="x", split="held-out", reward=None, patch="\udcff", created_at=9.0)]
    made += [make_trajectory(make_call([1], []), id="silent", steps=(), created_at=10.0)]
    for one in made:
        store.add(one)
    report = export(store, TrajectoryFilter(), "parquet", tmp_path / "set")
    assert (report.trajectories, report.rows) == (10, 19)
    assert report.left_out == {"the policy sampled nothing": 1}
    names = sorted(path.name for path in (tmp_path / "set" / "data").iterdir())
    assert names[0] == "held_out-00000-of-00001.parquet"
    assert names[1:] == [f"train-{i:05d}-of-{len(names) - 1:05d}.parquet" for i in range(len(names) - 1)]
    assert len(names) > 2
    assert "split: held_out" in (tmp_path / "set" / "README.md").read_text()

    train = sorted((tmp_path / "set" / "data").glob("train-*"))
    table = [row for path in train for row in arrow.read_table(path).to_pylist()]
    assert table[0].keys() >= {"id", "reward", "termination"}
    wanted = [sequence for one in made[:9] for sequence in sequences(one)]
    assert len(table) == len(wanted)
    for row, sequence in zip(table, wanted, strict=True):
        assert (row["id"], row["sequence"]) == (sequence.trajectory_id, sequence.index)
        for name in ("token_ids", "action_mask", "logprobs", "policy_version", "call_index", "temperature"):
            theirs = np.array(row[name], getattr(sequence, name).dtype)
            np.testing.assert_array_equal(theirs, getattr(sequence, name), strict=True)
    with pytest.raises(TransferError, match="exists already"):
        export(store, TrajectoryFilter(), "parquet", tmp_path / "set")


@pytest.mark.parametrize("format", FORMATS)
def test_a_stream_reads_a_trajectory_when_it_is_asked_for_the_next(store, make_trajectory, monkeypatch, format) -> None:
    monkeypatch.setattr(parquet_format, "GROUP_TOKENS", 1)
    for number in range(5):
        store.add(make_trajectory(id=f"{number}", created_at=float(number)))
    report, seen = ExportReport(format), []
    chunks = stream(store, TrajectoryFilter(), format, report, transcribe=told, on_progress=seen.append)
    first = next(chunks)
    assert first
    assert len(seen) <= 1
    assert b"".join(chunks)
    assert seen == ["0", "1", "2", "3", "4"]
    assert report.trajectories == 5


def test_a_split_that_is_too_long_for_a_file_gets_a_shorter_name(store, make_trajectory, tmp_path) -> None:
    pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (pip install 'agentgym[parquet]')")
    for number, split in enumerate(["x" * 300, "x" * 301, "train"]):
        store.add(make_trajectory(id=f"{number}", split=split))
    report = export(store, TrajectoryFilter(), "parquet", tmp_path / "set")
    assert (report.trajectories, len(report.files)) == (3, 4)


def test_parquet_is_one_file_where_the_target_is_one(store, make_trajectory, tmp_path) -> None:
    arrow = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (pip install 'agentgym[parquet]')")
    made = [make_trajectory(id=f"{number}", created_at=float(number), split=f"s{number}") for number in range(3)]
    for one in made:
        store.add(one)
    report = export(store, TrajectoryFilter(), "parquet", tmp_path / "one.parquet")
    assert report.files == [str(tmp_path / "one.parquet")]
    rows = arrow.read_table(tmp_path / "one.parquet").to_pylist()
    wanted = [sequence for one in made for sequence in sequences(one)]
    assert [(row["id"], row["split"], row["token_ids"]) for row in rows] == [
        (one.trajectory_id, f"s{one.trajectory_id}", one.token_ids.tolist()) for one in wanted
    ]
    export(store, TrajectoryFilter(run_id="none"), "parquet", tmp_path / "empty.parquet")
    assert arrow.read_table(tmp_path / "empty.parquet").num_rows == 0


def test_sft_holds_whole_conversations_and_counts_the_others(store, make_call, make_trajectory, tmp_path) -> None:
    store.add(make_trajectory(id="a", created_at=1.0))
    store.add(make_trajectory(make_call([1], [2]), make_call([9], [3], event="rewritten"), id="b", steps=()))
    report = export(store, TrajectoryFilter(), "sft", tmp_path / "sft.jsonl", transcribe=told)
    assert report.left_out == {"its context was compacted, cut or rewritten": 1}
    [row] = map(json.loads, (tmp_path / "sft.jsonl").read_text().splitlines())
    assert [message["role"] for message in row["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert row["messages"][2]["tool_calls"][0]["function"] == {"name": "bash", "arguments": {"command": "ls"}}
    assert row["tools"][0]["function"]["name"] == "bash"
    silent = export(store, TrajectoryFilter(), "sft", tmp_path / "silent.jsonl")
    assert silent.trajectories == 0
    assert any("words are not known" in reason for reason in silent.left_out)


def test_predictions_name_each_instance_once_a_file(store, make_trajectory, tmp_path) -> None:
    for number, task in enumerate(["t1", "t2", "t1", "t1"]):
        store.add(make_trajectory(id=f"{number}", task_id=task, patch=f"patch {number}\n", created_at=float(number)))
    store.add(make_trajectory(id="4", reward=None, termination=Termination.CANCELLED, created_at=4.0))
    report = export(store, TrajectoryFilter(), "predictions", tmp_path / "preds.jsonl")
    rows = [[json.loads(line) for line in Path(file).read_text().splitlines()] for file in report.files]
    assert [[(row["instance_id"], row["model_patch"]) for row in file] for file in rows] == [
        [("t1", "patch 0\n"), ("t2", "patch 1\n")],
        [("t1", "patch 2\n")],
        [("t1", "patch 3\n")],
    ]
    assert [Path(file).name for file in report.files] == ["preds.jsonl", "preds.2.jsonl", "preds.3.jsonl"]
    assert rows[0][0]["model_name_or_path"] == "smollm2"
    assert report.left_out == {"it ended with cancelled": 1}


def test_predictions_hold_no_more_files_open_than_a_process_may(store, make_trajectory, tmp_path) -> None:
    for number in range(80):
        store.add(make_trajectory(id=f"{number:02}", created_at=float(number)))
    (tmp_path / ".preds.2.jsonl.partial").write_text("left by a process that was killed\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, hard))
    try:
        report = export(store, TrajectoryFilter(), "predictions", tmp_path / "preds.jsonl")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (report.rows, len(report.files)) == (80, 80)
    assert all(len(Path(file).read_text().splitlines()) == 1 for file in report.files)
    assert not list(tmp_path.glob(".*.partial"))
