"""`agentgym store`: one JSON document on stdout, honest exit codes."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from agentgym.cli.main import app
from agentgym.cli.output import emit
from agentgym.errors import AgentGymError, InputError
from agentgym.store import Store, StoreError
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
