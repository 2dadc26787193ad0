"""Long work: launched in a process of its own, watched, stopped, resumed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from servers import Postgres

from agentgym.server import ServerSettings, create_app
from agentgym.server.problem import RequestError
from agentgym.server.runs.commands import command_line, toml
from agentgym.server.runs.launch import STARTING_SECONDS, Launcher
from agentgym.store import Store
from agentgym.store.engine import writing
from agentgym.store.schema import server_run


@pytest.fixture
async def client(filled, tmp_path):
    settings = ServerSettings(runs_dir=tmp_path / "runs", max_running=2)
    transport = httpx.ASGITransport(app=create_app(str(filled), settings), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as opened:
        yield opened


async def ended(client, run_id: str, patience: float = 240.0) -> dict:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        run = (await client.get(f"/v1/runs/{run_id}")).json()
        if run["process"]["status"] != "running":
            return run
        await asyncio.sleep(0.3)
    raise AssertionError(f"run {run_id} still runs")


async def test_runs_of_a_command_line_are_counted_from_their_trajectories(client) -> None:
    runs = {one["id"]: one for one in (await client.get("/v1/runs")).json()["items"]}
    assert set(runs) == {"run", "other"}
    assert (runs["run"]["episodes"], runs["run"]["solved"], runs["run"]["graded"]) == (2, 2, 2)
    assert runs["other"]["terminations"] == {"environment_failure": 1}
    assert runs["other"]["process"] is None
    curves = (await client.get("/v1/runs/run/series")).json()["curves"]
    assert {one["name"]: one["y"] for one in curves}["mean reward"] == [1.0, 1.0]


async def test_a_launched_command_that_fails_says_so_and_keeps_its_log(client) -> None:
    launched = await client.post(
        "/v1/runs", json={"kind": "rollout", "id": "bad", "config": {"tasks": ["no-such-task"]}}
    )
    assert (launched.status_code, launched.json()["process"]["status"]) == (201, "running")
    run = await ended(client, "bad")
    assert (run["process"]["status"], run["process"]["exit_code"]) == ("failed", 2)
    assert "no-such-task" in (await client.get("/v1/runs/bad/log")).text
    async with client.stream("GET", "/v1/runs/bad/events") as stream:
        lines = [line async for line in stream.aiter_lines()]
    assert lines[0] == "event: progress"
    assert json.loads(lines[1].removeprefix("data: "))["status"] == "failed"
    assert lines[-3] == "event: end"
    again = await client.post("/v1/runs/bad/resume")
    assert again.json()["process"]["attempt"] == 2
    await ended(client, "bad")


async def test_a_stop_ends_the_command_and_a_kill_is_seen_as_lost(client) -> None:
    # Validating every shipped task takes long enough to be stopped in the middle.
    await client.post("/v1/runs", json={"kind": "validate", "id": "long", "config": {"tasks": ["all"]}})
    stopped = await client.post("/v1/runs/long/stop")
    assert stopped.status_code == 200
    assert (await ended(client, "long"))["process"]["status"] in ("stopped", "lost")
    await client.post("/v1/runs", json={"kind": "validate", "id": "killed", "config": {"tasks": ["all"]}})
    launcher = client._transport.app.state.launcher
    os.killpg(launcher.get("killed").pid, signal.SIGKILL)
    assert (await ended(client, "killed"))["process"]["status"] == "lost"
    assert (await client.post("/v1/runs/killed/stop")).status_code == 409


def remember(client, **changes) -> None:
    """Write a row of a launched run, as another server would have."""
    row = {"id": "r", "kind": "rollout", "config": {}, "status": "running", "attempt": 1, "directory": "/nowhere"}
    row |= {"host": socket.gethostname(), "created_at": time.time(), "started_at": time.time()}
    with writing(client._transport.app.state.store.engine) as connection:
        connection.execute(server_run.insert(), row | changes)


async def test_a_run_of_another_machine_is_left_to_its_servers(client) -> None:
    bystander = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        remember(client, host="elsewhere", pid=bystander.pid, pid_started="1")
        answer = await client.post("/v1/runs/r/stop")
        assert (answer.status_code, answer.json()["hint"]) == (409, "ask a server of that machine")
        await asyncio.sleep(0.1)
        assert bystander.poll() is None, "a process of this machine that happens to have its number was ended"
    finally:
        bystander.kill()
        bystander.wait()


async def test_a_run_whose_server_died_before_it_had_a_process_is_lost_and_takes_no_place(client) -> None:
    for name in ("r1", "r2"):
        remember(client, id=name, started_at=time.time() - 2 * STARTING_SECONDS)
    remember(client, id="fresh")
    assert (await client.get("/v1/runs/r1")).json()["process"]["status"] == "lost"
    assert (await client.post("/v1/runs/fresh/stop")).headers["retry-after"] == "1"
    launched = await client.post("/v1/runs", json={"kind": "rollout", "id": "x", "config": {"tasks": ["no-such-task"]}})
    assert launched.status_code == 201
    await ended(client, "x")


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path) -> Iterator[str]:
    """The URL of an empty database."""
    if request.param == "sqlite":
        yield str(tmp_path / "store.db")
        return
    server = Postgres("fsync=off")
    yield server.url.render_as_string(hide_password=False)
    server.remove()


def test_of_many_that_ask_at_once_as_many_start_as_allowed(database, tmp_path, monkeypatch) -> None:
    """Each has connections of its own, as servers on several machines have."""
    monkeypatch.setattr(Launcher, "_start", lambda self, run_id, directory: self.get(run_id))
    stores = [Store.open(database) for _ in range(6)]
    launchers = [Launcher(one.engine, database, ServerSettings(runs_dir=tmp_path, max_running=2)) for one in stores]

    def outcome(act: Callable[[], object]) -> int:
        try:
            act()
        except RequestError as error:
            return error.status
        return 201

    with ThreadPoolExecutor(len(launchers)) as pool:
        found = list(pool.map(lambda one: outcome(lambda: one.launch("rollout", {})), launchers))
        assert sorted(found) == [201, 201, 429, 429, 429, 429]
        first = launchers[0].list()[0].id
        with writing(stores[0].engine) as connection:
            connection.execute(server_run.update().where(server_run.c.id == first).values(status="stopped"))
        again = list(pool.map(lambda one: outcome(lambda: one.resume(first)), launchers))
        assert sorted(again) == [201, 409, 409, 409, 409, 409]
    for one in stores:
        one.close()


async def test_a_run_that_has_no_place_on_disk_is_failed_not_running(client, tmp_path) -> None:
    (tmp_path / "runs").write_text("a file where the directory should be")
    answer = await client.post("/v1/runs", json={"kind": "rollout", "id": "x"})
    assert (answer.status_code, "could not be started" in answer.json()["detail"]) == (503, True)
    assert (await client.get("/v1/runs/x")).json()["process"]["status"] == "failed"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"kind": "rollout", "id": "../../etc"}, 422),
        ({"kind": "rollout", "config": {"store": "/etc/passwd"}}, 422),
        ({"kind": "train", "config": {"output": "/"}}, 422),
        ({"kind": "replay", "config": {}}, 422),
        ({"kind": "replay", "config": {"trajectory": "good", "--store": "x"}}, 422),
        ({"kind": "import", "config": {"benchmark": ["a", "b"], "source": "x"}}, 422),
        ({"kind": "import", "config": {"benchmark": "a", "source": "x", "out": "/"}}, 422),
        ({"kind": "rm", "config": {}}, 422),
        ({"kind": "rollout", "unknown": 1}, 422),
    ],
)
async def test_what_no_command_line_may_say_is_refused(client, body, status) -> None:
    assert (await client.post("/v1/runs", json=body)).status_code == status


async def test_no_more_runs_than_allowed(filled, tmp_path) -> None:
    app = create_app(str(filled), ServerSettings(runs_dir=tmp_path, max_running=0))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
        assert (await client.post("/v1/runs", json={"kind": "rollout"})).status_code == 429


async def test_what_training_measured_is_a_curve(client) -> None:
    store = client._transport.app.state.store
    store.put_metrics("run", 1, {"loss": 2.0})
    store.put_metrics("run", 2, {"loss": 1.0, "kl": 0.5})
    found = {one["name"]: one for one in (await client.get("/v1/runs/run/series")).json()["curves"]}
    assert (found["loss"]["x"], found["loss"]["y"], found["kl"]["y"]) == ([1, 2], [2.0, 1.0], [None, 0.5])


def test_offline_training_names_whose_episodes_it_reads_and_online_training_its_own(tmp_path) -> None:
    offline = command_line("train", {"run_id": "r1"}, "mine", "s.db", tmp_path)
    assert "--run-id" not in offline
    assert tomllib.loads((tmp_path / "config.toml").read_text()) == {"run_id": "r1"}
    online = command_line("train", {"mode": "async"}, "mine", "s.db", tmp_path)
    assert online[online.index("--run-id") + 1] == "mine"


def test_a_trajectory_named_like_an_option_stays_an_argument(tmp_path) -> None:
    command = command_line("replay", {"trajectory": "--store=x", "regrade": False}, "r", "s.db", tmp_path)
    assert command == ["replay", "--no-regrade", "--store", "s.db", "--json", "--", "--store=x"]


@pytest.mark.parametrize(
    ("kind", "config", "line"),
    [
        ("validate", {"tasks": ["a", "b"], "repeats": 2}, "tasks validate --repeats=2 --store s.db --json -- a b"),
        (
            "check",
            {"run_id": "r1", "termination": ["submitted", "max_steps"]},
            "store check --run-id=r1 --termination=submitted --termination=max_steps --store s.db --json",
        ),
        ("check", {}, "store check --store s.db --json"),
        ("replay", {"run_id": "r1", "limit": 2}, "replay --run-id=r1 --limit=2 --store s.db --json --"),
        ("build", {"tasks": "a"}, "images build --store s.db --json -- a"),
        ("reap", {"backend": "local"}, "sandbox reap --backend=local --json"),
        (
            "import",
            {"benchmark": "swe-bench", "source": "rows.json"},
            "tasks import --out D/tasks --store s.db --json -- swe-bench rows.json",
        ),
    ],
)
def test_a_run_is_the_command_line_that_a_person_would_type(tmp_path, kind, config, line) -> None:
    assert " ".join(command_line(kind, config, "r", "s.db", tmp_path)) == line.replace("D/", f"{tmp_path}/")


def test_a_config_comes_back_from_its_file_as_it_was_sent() -> None:
    config = {"tasks": ['a"b\\\n', "ü🦀\x7f"], "rollouts": 3, "any_status": True, "rate": 1.5, "options": {"a": [1]}}
    assert tomllib.loads(toml(config | {"left_out": None})) == config
