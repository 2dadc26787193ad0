"""`agentgym --server URL`: the same commands, asked of a real server."""

from __future__ import annotations

import contextlib
import json
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import uvicorn

from agentgym.cli import remote
from agentgym.cli.main import app
from agentgym.errors import InputError
from agentgym.server import ServerSettings, create_app
from agentgym.store import Step, TrajectoryFilter
from agentgym.store.records import Termination
from agentgym.tasks import Registry, load_task


@pytest.fixture
def served(filled, tmp_path, task_directory) -> Iterator[str]:
    """The address of a server."""
    registry = Registry(filled)
    registry.register(load_task(task_directory))
    registry.close()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = ServerSettings(runs_dir=tmp_path / "runs")
    server = uvicorn.Server(uvicorn.Config(create_app(str(filled), settings), port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


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
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]["message"]
    assert "run_id" in error  # the server names its runs itself


@pytest.mark.parametrize("arguments", [["doctor"], ["store", "check"], ["tasks", "validate", "x"], ["sandbox", "reap"]])
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
