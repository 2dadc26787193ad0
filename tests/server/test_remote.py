"""`agentgym --server URL`: the same commands, asked of a real server."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from serving import environment, listening

from agentgym.cli import remote
from agentgym.cli.main import app
from agentgym.cli.words import words
from agentgym.client import Client, ServerError
from agentgym.errors import InputError
from agentgym.server import ServerSettings, create_app
from agentgym.server.runs.commands import command_line
from agentgym.store import Step, Store, TrajectoryFilter
from agentgym.store.engine import writing
from agentgym.store.records import Termination
from agentgym.store.schema import trajectory_body
from agentgym.tasks import Registry, load_task


@pytest.fixture
def served(filled, tmp_path, task_directory) -> Iterator[str]:
    """The address of a server."""
    registry = Registry(filled)
    registry.register(load_task(task_directory))
    registry.close()
    settings = ServerSettings(runs_dir=tmp_path / "runs")
    with listening(create_app(str(filled), settings, words=words)) as address:
        yield address


def asked(capsys, server: str, *arguments: str) -> dict:
    app(["--server", server, *arguments, "--json"], standalone_mode=False)
    return json.loads(capsys.readouterr().out)


def test_what_reads_shows_the_servers_store(served, capsys) -> None:
    assert [one["id"] for one in asked(capsys, served, "store", "ls", "--reward-min", "1")["trajectories"]] == [
        "good",
        "hostile",
    ]
    shown = asked(capsys, served, "store", "show", "go", "--tokens")
    assert (shown["reward"], len(shown["step_list"]), shown["call_list"][0]["prompt_token_ids"]) == (1.0, 1, [1, 2, 3])
    [task] = asked(capsys, served, "tasks", "list")["tasks"]
    assert asked(capsys, served, "tasks", "show", task["id"])["instruction"]
    assert asked(capsys, served, "report", "run")["episodes"] == 2


def test_a_row_that_cannot_be_read_is_named_beside_the_others(served, filled, capsys) -> None:
    with contextlib.closing(sqlite3.connect(filled)) as raw:
        raw.execute("UPDATE trajectory SET task_id = CAST(x'ff' AS TEXT) WHERE id = 'failed'")
        raw.commit()
    listing = asked(capsys, served, "store", "ls")
    assert ([one["id"] for one in listing["trajectories"]], listing["damaged"]) == (["good", "hostile"], ["failed"])


def test_a_launched_command_is_watched_and_its_failure_is_the_commands(served) -> None:
    command = [
        sys.executable,
        "-m",
        "agentgym",
        "--server",
        served,
        "rollout",
        "no-such-task",
        "--run-id",
        "r9",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 2
    failure = json.loads(done.stdout)["error"]
    assert "no-such-task" in failure["message"]
    assert failure["hint"] == "agentgym tasks list"


@pytest.mark.timeout(1200)
def test_from_launch_to_check_a_server_is_all_that_the_command_line_needs(
    served, capsys, tmp_path, task_directory
) -> None:
    """A real episode of the reference solution, in a sandbox of the server's machine."""
    backend = "local" if shutil.which("bwrap") else "docker"
    options = ["--policy", "gold", "--any-status", "--backend", backend, "--run-id", "far"]
    try:
        rolled = asked(capsys, served, "rollout", task_directory.name, *options)
    except remote.RunFailed as failure:
        if failure.exit_code == 3:
            pytest.skip(f"no sandbox or no model on this machine: {failure}")
        raise
    assert (rolled["run_id"], rolled["terminations"]) == ("far", {"submitted": 1})

    [listed] = asked(capsys, served, "store", "ls", "--run-id", "far")["trajectories"]
    assert (listed["reward"], listed["policy"]) == (1.0, "gold")
    shown = asked(capsys, served, "store", "show", listed["id"][:8], "--tokens")
    assert shown["verdicts"]
    assert len(shown["call_list"]) == listed["calls"]
    checked = asked(capsys, served, "store", "check", "--run-id", "far")
    assert (checked["ok"], checked["trajectories"], checked["action_tokens"]) == (True, 1, listed["action_tokens"])
    asked(capsys, served, "store", "export", "--run-id", "far", "-o", str(tmp_path / "far.jsonl"))
    [exported] = map(json.loads, (tmp_path / "far.jsonl").read_text().splitlines())
    assert exported["id"] == listed["id"]
    read = ["--format", "sft", "--tokenizer", "smollm2-135m-instruct", "-o", str(tmp_path / "sft.jsonl")]
    asked(capsys, served, "store", "export", "--run-id", "far", *read)
    [conversation] = map(json.loads, (tmp_path / "sft.jsonl").read_text().splitlines())
    called = [one["tool_calls"][0]["function"]["name"] for one in conversation["messages"] if one.get("tool_calls")]
    assert called == [one["tool"] for one in shown["step_list"]]

    again = asked(capsys, served, "rollout", task_directory.name, *options[:-2])  # the server names this one
    assert again["run_id"] != "far"
    runs = {one["id"]: one for one in asked(capsys, served, "runs", "ls")["runs"]}
    assert runs["far"]["process"]["status"] == "done"
    assert runs[again["run_id"]]["solved"] == 1
    assert asked(capsys, served, "runs", "show", "far")["episodes"] == 1
    assert asked(capsys, served, "runs", "watch", "far") == rolled


def test_a_run_is_stopped_read_and_looked_for_from_the_command_line(served, capsys) -> None:
    with Client(served) as client:
        client.launch("validate", {"tasks": ["all"]}, run_id="long")
    assert asked(capsys, served, "runs", "stop", "long")["process"]["status"] in ("stopped", "lost")
    assert isinstance(asked(capsys, served, "runs", "log", "long", "--tail", "100")["log"], str)
    app(["--server", served, "runs", "ls"], standalone_mode=False)
    assert "long" in capsys.readouterr().out
    with pytest.raises(ServerError, match="not running"):
        asked(capsys, served, "runs", "stop", "long")
    with pytest.raises(ServerError, match="no run 'nothing'"):
        asked(capsys, served, "runs", "show", "nothing")


def test_a_check_that_fails_on_the_server_gives_its_document_and_fails_here(served, filled, capsys) -> None:
    with Store.open(filled) as store, writing(store.engine) as connection:
        body = trajectory_body.c
        [(blob,)] = connection.execute(sa.select(body.tokens).where(body.trajectory_id == "good"))
        damaged = blob[:-1] + bytes([blob[-1] ^ 1])
        connection.execute(trajectory_body.update().where(body.trajectory_id == "good").values(tokens=damaged))
    with pytest.raises(remote.RunFailed, match="exit code 1"):
        asked(capsys, served, "store", "check")
    document = json.loads(capsys.readouterr().out)
    assert (document["ok"], [one["trajectory_id"] for one in document["faults"]]) == (False, ["good"])


def test_which_server_must_be_said(monkeypatch) -> None:
    remote.choose(None, None)
    with pytest.raises(InputError, match="which server"):
        app(["runs", "ls"], standalone_mode=False)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"kind": "rollout", "run_id": "night", "rollouts": 2}, "night"),
        ({"kind": "eval"}, None),
        ({"kind": "train", "run_id": "whose", "name": "mine"}, "mine"),
        ({"kind": "train", "mode": "async", "run_id": "own"}, "own"),
        ({"kind": "replay", "run_id": "whose"}, None),
    ],
)
def test_a_run_is_named_as_at_home(config, name) -> None:
    kind = config.pop("kind")
    rest, found = remote._named(kind, config)
    assert found == name
    assert ("run_id" in rest) == (config.get("run_id") == "whose")


def test_every_option_of_a_replay_reaches_the_server(monkeypatch) -> None:
    sent = {}
    monkeypatch.setattr(remote, "launch", lambda kind, config, as_json: sent.update({kind: config}))
    words = "--run-id r --termination submitted --no-verdict --limit 3 --newer-than 1h --no-regrade --table 5 --seed 7"
    app(["--server", "http://x", "replay", *words.split()], standalone_mode=False)
    remote.choose(None, None)
    config = sent["replay"]
    assert abs(float(config["newer_than"].rstrip("s")) - 3600) <= 1
    line = command_line("replay", config, "id", Path())
    expected = {
        "--run-id=r",
        "--termination=submitted",
        "--no-verdict",
        "--limit=3",
        "--no-regrade",
        "--table=5",
        "--seed=7",
    }
    assert expected <= set(line)
    assert "--reexecute" not in line


@pytest.mark.parametrize("arguments", [["doctor"], ["store", "rm"], ["tasks", "validate", "x"], ["sandbox", "reap"]])
def test_a_command_about_this_machine_refuses(arguments) -> None:
    with pytest.raises(InputError, match="is about this machine"):
        app(["--server", "http://127.0.0.1:9", *arguments], standalone_mode=False)
    remote.choose(None, None)


def test_a_filter_is_a_query_and_nothing_of_it_is_lost() -> None:
    where = TrajectoryFilter(
        run_id="r", terminations=(Termination.SUBMITTED,), reward_max=0.0, has_reward=False, limit=5
    )
    assert remote.query_of(where) == {
        "run_id": "r",
        "termination": ["submitted"],
        "reward_max": 0.0,
        "has_reward": False,
    }


def test_steps_come_back_as_they_were_recorded(served) -> None:
    remote.choose(served, "store")
    with remote.connected() as client:
        record = remote.record_of(client.trajectory("good"), client.detail("good"))
    remote.choose(None, None)
    assert isinstance(record.steps[0], Step)
    assert (record.steps[0].tool, record.verdicts) == ("bash", {"t::a": "passed", "t::b": "failed"})
