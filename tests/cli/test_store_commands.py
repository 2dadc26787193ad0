"""`agentgym store`: one JSON document on stdout, honest exit codes."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console, Group
from rich.table import Table
from typer.testing import CliRunner

from agentgym.cli import output
from agentgym.cli.main import app
from agentgym.cli.output import emit
from agentgym.errors import AgentGymError, InputError
from agentgym.store import Store, StoreError
from agentgym.store.container import pack, unpack
from agentgym.store.records import (
    FinishReason,
    ModelCall,
    PolicyKind,
    Sampling,
    Step,
    Termination,
    Trajectory,
    VersionSpan,
)
from agentgym.tasks import TaskError


def trajectory(identifier: str, *, reward: float | None = 1.0, run: str = "r1") -> Trajectory:
    call = ModelCall(
        prompt_token_ids=np.array([1, 2, 3], np.int32),
        generation_token_ids=np.array([4, 5], np.int32),
        logprobs=np.array([-0.5, -0.25], np.float32),
        sampling=Sampling(),
        policy_versions=(VersionSpan(0, 0, 2),),
        finish_reason=FinishReason.STOP,
    )
    return Trajectory(
        task_id="sum[1]",
        task_digest="sha256:t",
        harness_digest="sha256:h",
        backend="docker",
        image_digest="sha256:i",
        policy="probe",
        policy_kind=PolicyKind.MODEL,
        calls=(call,),
        steps=(Step(0, "bash", {"command": "ls [a]"}, "file\n[/bold] not markup"),),
        termination=Termination.SUBMITTED,
        reward=reward,
        verdicts={"tests/test_a.py::test_one": "failed"},
        run_id=run,
        id=identifier,
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    with Store.open(path) as opened:
        opened.add(trajectory("a" * 32))
        opened.add(trajectory("b" * 32, reward=0.0, run="r2"))
    return path


def invoke(*arguments: str) -> str:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False).stdout


def test_ls_filters_and_counts(store: Path) -> None:
    listing = json.loads(invoke("store", "ls", "--store", str(store), "--run-id", "r2", "--json"))
    assert [one["id"] for one in listing["trajectories"]] == ["b" * 32]
    assert listing["total"] == 1


def test_ls_names_a_row_that_cannot_be_read_and_lists_the_others(store: Path) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE trajectory SET task_id = CAST(x'ff' AS TEXT) WHERE id LIKE 'a%'")
    listing = json.loads(invoke("store", "ls", "--store", str(store), "--json"))
    assert ([one["id"] for one in listing["trajectories"]], listing["damaged"]) == (["b" * 32], ["a" * 32])
    assert f"cannot be read (`agentgym store check` says why): {'a' * 32}" in " ".join(
        invoke("store", "ls", "--store", str(store)).split()
    )


def test_check_says_of_which_records_only_the_tokens_are_proved(store: Path) -> None:
    assert "without a seal" not in invoke("store", "check", "--store", str(store))
    with sqlite3.connect(store) as connection:
        [(blob,)] = connection.execute("SELECT detail FROM trajectory_body WHERE trajectory_id LIKE 'a%'")
        bare = pack({"JSON": unpack(blob)["JSON"]})
        connection.execute("UPDATE trajectory_body SET detail = ? WHERE trajectory_id LIKE 'a%'", [bare])
    assert "1 trajectory without a seal" in invoke("store", "check", "--store", str(store))
    assert json.loads(invoke("store", "check", "--store", str(store), "--json"))["unsealed"] == 1


def test_tasks_are_listed_and_shown_without_writing(tmp_path: Path) -> None:
    """Also from a store on a read-only disk, or before there is one."""
    path = tmp_path / "new" / "store.db"
    before = json.loads(invoke("tasks", "list", "--store", str(path), "--json"))["tasks"]
    assert (
        json.loads(invoke("tasks", "show", "tutorial-duration", "--store", str(path), "--json"))["status"]
        == "registered"
    )
    assert not path.parent.exists()
    with pytest.raises(TaskError, match="no task 'tutorial-durations' — did you mean \"tutorial-duration\""):
        invoke("tasks", "show", "tutorial-durations", "--store", str(path))
    Store.open(path).close()
    written = path.read_bytes()
    path.chmod(0o444)
    path.parent.chmod(0o555)
    assert json.loads(invoke("tasks", "list", "--store", str(path), "--json"))["tasks"] == before
    digest = next(one["digest"] for one in before if one["id"] == "tutorial-duration")
    assert json.loads(invoke("tasks", "show", digest[:20], "--store", str(path), "--json"))["id"] == "tutorial-duration"
    with pytest.raises(TaskError, match="no registered task is called nothing"):
        invoke("tasks", "show", "nothing", "--store", str(path))
    assert path.read_bytes() == written


def test_show_prints_hostile_text_as_text(store: Path) -> None:
    page = invoke("store", "show", "aaaa", "--store", str(store))
    assert "[/bold] not markup" in page
    document = json.loads(invoke("store", "show", "aaaa", "--store", str(store), "--tokens", "--json"))
    assert document["call_list"][0]["generation_token_ids"] == [4, 5]
    assert document["step_list"][0]["observation"].startswith("file\n")


def test_check_passes_on_a_whole_store_and_fails_on_a_damaged_one(store: Path) -> None:
    report = json.loads(invoke("store", "check", "--store", str(store), "--json"))
    assert report["ok"] is True
    assert report["trajectories"] == 2

    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE trajectory_body SET tokens = substr(tokens, 1, 20) WHERE trajectory_id LIKE 'a%'")
    with pytest.raises(AgentGymError, match="1 fault in"):
        invoke("store", "check", "--store", str(store))


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store"):
        invoke("store", "ls", "--store", str(tmp_path / "none.db"))
    assert not (tmp_path / "none.db").exists()


def test_an_unknown_termination_names_the_nearest(store: Path) -> None:
    with pytest.raises(InputError, match='did you mean "submitted"'):
        invoke("store", "ls", "--store", str(store), "--termination", "submited")


def test_ls_takes_the_filters_of_every_other_command(store: Path) -> None:
    with Store.open(store) as opened:
        opened.add(replace(trajectory("c" * 32, reward=None), created_at=1.0, split="held-out"))

    def listed(*options: str) -> str:
        document = json.loads(invoke("store", "ls", "--store", str(store), "--json", *options))
        return "".join(sorted(one["id"][0] for one in document["trajectories"]))

    assert listed("--no-verdict") == listed("--older-than", "4w") == listed("--split", "held-out") == "c"
    assert listed("--verdict", "--newer-than", "1h") == "ab"
    assert listed("--reward-max", "0.5") == "b"
    assert listed("--termination", "submitted", "--termination", "cancelled", "--trainable") == "ab"
    assert listed("--version-min", "1") == listed("--parent", "zz") == ""
    with pytest.raises(InputError, match="'yesterday' is no age"):
        listed("--older-than", "yesterday")


def test_rm_says_what_would_go_and_goes_only_when_told(store: Path) -> None:
    assert "would remove 1 trajectory" in invoke("store", "rm", "--store", str(store), "--run-id", "r2")
    with Store.open(store) as opened:
        assert opened.count() == 2
    done = json.loads(invoke("store", "rm", "--store", str(store), "--run-id", "r2", "--yes", "--json"))
    assert (done["removed"], done["trajectories"]) == (True, 1)
    with Store.open(store) as opened:
        assert [one.run_id for one in opened.query()] == ["r1"]
    with pytest.raises(InputError, match="would empty the store"):
        invoke("store", "rm", "--store", str(store), "--yes")
    assert "removed 1 trajectory" in invoke("store", "rm", "--all", "--store", str(store), "--yes")


def test_an_export_is_imported_into_another_store(store: Path, tmp_path: Path) -> None:
    told = invoke("store", "export", "--store", str(store), "--run-id", "r1", "-o", str(tmp_path / "x.jsonl"))
    assert "1 trajectory as json" in told
    other = str(tmp_path / "other.db")
    assert "1 trajectory added, 0 known" in invoke("store", "import", str(tmp_path / "x.jsonl"), "--store", other)
    assert json.loads(invoke("store", "ls", "--store", other, "--json"))["trajectories"][0]["id"] == "a" * 32
    (tmp_path / "x.jsonl").write_text("{}")
    with pytest.raises(AgentGymError, match="1 document could not be taken"):
        invoke("store", "import", str(tmp_path / "x.jsonl"), "--store", other)
    with pytest.raises(AgentGymError, match="no trajectory was written"):
        invoke("store", "export", "--store", str(store), "--run-id", "none", "-o", str(tmp_path / "y.jsonl"))
    with pytest.raises(InputError, match="format 'xml' is not known"):
        invoke("store", "export", "--store", str(store), "-o", str(tmp_path / "y"), "--format", "xml")
    with pytest.raises(StoreError, match="cannot read"):
        invoke("store", "import", str(tmp_path / "none.json"), "--store", other)


def test_an_export_with_words_says_what_it_lacks(store: Path, tmp_path: Path) -> None:
    invoke("store", "export", "--store", str(store), "--format", "atif", "-o", str(tmp_path / "atif"))
    document = json.loads((tmp_path / "atif" / f"{'a' * 32}.json").read_text())
    assert document["steps"][0]["tool_calls"][0]["arguments"] == {"command": "ls [a]"}
    with pytest.raises(AgentGymError, match="no trajectory was written"):
        invoke("store", "export", "--store", str(store), "--format", "sft", "-o", str(tmp_path / "sft.jsonl"))


def test_replay_wants_to_know_which_and_who(store: Path) -> None:
    with pytest.raises(InputError, match="which trajectories"):
        invoke("replay", "--store", str(store))
    with pytest.raises(InputError, match="who goes on"):
        invoke("replay", "aaaa", "--from-step", "1", "--store", str(store))
    with pytest.raises(InputError, match="no registered task"):  # the policy was taken for the one that goes on
        invoke("replay", "aaaa", "--from-step", "1", "--policy", "nobody", "--store", str(store))
    with pytest.raises(InputError, match="no trajectory fits"):
        invoke("replay", "--policy", "nobody", "--rescore", "x", "--store", str(store))
    with pytest.raises(InputError, match="no trajectory fits"):
        invoke("replay", "--run-id", "none", "--store", str(store))


def test_one_that_cannot_be_replayed_is_told_beside_the_others(store: Path) -> None:
    result = CliRunner().invoke(app, ["replay", "--limit", "5", "--rerender", "--store", str(store), "--json"])
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert document["summary"]["failed"] == 2
    assert all("sha256:t" in one["error"] for one in document["trajectories"])


def test_replay_refuses_what_cannot_be_done_before_it_runs_anything(store: Path) -> None:
    with pytest.raises(InputError, match="nothing to replay"):
        invoke("replay", "aaaa", "--no-reexecute", "--store", str(store))
    with Store.open(store) as opened:
        opened.add(replace(trajectory("c" * 32), policy_kind=PolicyKind.SCRIPTED))
    with pytest.raises(InputError, match="played from a script"):
        invoke("replay", "cccc", "--rescore", "no-such-model", "--store", str(store))


def test_a_long_line_stays_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / ("long" * 40)
    emit({}, f"model: {path}", as_json=False)
    assert f"model: {path}\n" in capsys.readouterr().out


def test_what_is_to_be_typed_is_not_cut_on_a_narrow_terminal(monkeypatch, capsys) -> None:
    """Given text beside a table, then its lines stay whole, as those of text alone do."""
    line = "agentgym store show 8c1bc11e --store runs/a-rather-long-name/store.db"
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(output, "stdout", Console(width=40))
    emit({}, Group(Table(title="t"), line), as_json=False)
    assert line in capsys.readouterr().out
