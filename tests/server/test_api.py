"""The JSON routes."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from agentgym.server import create_app
from agentgym.store import Store, StoreError
from agentgym.tasks import Registry, load_task, shipped_tasks


async def test_health_counts_what_is_stored(client) -> None:
    answer = (await client.get("/health")).json()
    assert (answer["status"], answer["trajectories"]) == ("ok", 3)


async def test_trajectories_are_filtered_and_paged_newest_first(client) -> None:
    async def ids(query: str = "") -> list[str]:
        return [one["id"] for one in (await client.get(f"/trajectories{query}")).json()["trajectories"]]

    assert await ids() == ["good", "failed", "hostile"]
    assert await ids("?oldest_first=true") == ["hostile", "failed", "good"]
    assert await ids("?run_id=other") == ["failed"]
    assert await ids("?termination=submitted&termination=cancelled") == ["good", "hostile"]
    assert await ids("?reward_min=0.5&has_reward=true&trainable=true") == ["good", "hostile"]
    assert await ids("?run_id=&termination=&reward_min=&policy_kind=") == ["good", "failed", "hostile"]  # a blank form

    first = (await client.get("/trajectories?limit=2")).json()
    assert (first["total"], len(first["trajectories"])) == (3, 2)
    second = (await client.get("/trajectories", params={"limit": 2, "after": first["next"]})).json()
    assert [one["id"] for one in second["trajectories"]] == ["hostile"]
    assert (second["total"], second["next"]) == (3, None)


async def test_one_trajectory_comes_with_steps_and_tokens(client) -> None:
    answer = (await client.get("/trajectories/go")).json()
    assert answer["id"] == "good"
    assert answer["verdicts"] == {"t::a": "passed", "t::b": "failed"}
    [step] = answer["step_list"]
    assert (step["tool"], step["arguments"], step["observation"]) == ("bash", {"command": "ls"}, "a.py\n")
    [call] = answer["call_list"]
    assert call["prompt_token_ids"] == [1, 2, 3]
    assert call["generation_token_ids"] == [40_004, 5]
    assert call["logprobs"] == [-0.25, -1.5]
    assert call["policy_versions"] == [{"version": 7, "start": 0, "end": 1}, {"version": 8, "start": 1, "end": 2}]
    assert (await client.get("/trajectories/good?tokens=false")).json()["call_list"] is None


async def test_text_no_encoding_can_carry_is_still_sent(client) -> None:
    answer = await client.get("/trajectories/hostile")
    assert answer.status_code == 200
    [step] = answer.json()["step_list"]
    assert r"\udc80" in step["observation"]
    assert step["arguments"]["n"] == "nan"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/trajectories/nothing", 404),
        ("/trajectories/a%00b", 404),
        ("/trajectories/nothing/view", 404),
        ("/tasks/nothing", 404),
        ("/trajectories?limit=0", 422),
        ("/trajectories?termination=exploded", 422),
        ("/trajectories?run_id=a%00b", 422),
        ("/trajectories?after=yesterday", 422),
        ("/?reward_min=lots", 422),
    ],
)
async def test_a_request_that_cannot_be_answered_says_why(client, path, status) -> None:
    answer = await client.get(path)
    assert answer.status_code == status
    assert answer.json()["error"]


async def test_registered_tasks_are_listed_with_their_status(client, filled) -> None:
    assert (await client.get("/tasks")).json() == {"tasks": []}
    task = load_task(shipped_tasks()[0])
    registry = Registry(filled)
    registry.register(task)
    registry.close()
    [one] = (await client.get("/tasks")).json()["tasks"]
    assert (one["id"], one["status"], one["digest"]) == (task.id, "registered", task.digest)
    assert (await client.get(f"/tasks/{task.id}")).json() == one


async def test_a_damaged_trajectory_is_an_error_of_its_own_and_does_not_hide_the_others(client, filled) -> None:
    with Store.open(filled) as store, store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE trajectory_body SET tokens = x'00' WHERE trajectory_id = 'good'")
    answer = await client.get("/trajectories/good")
    assert answer.status_code == 500
    assert "trajectory good" in answer.json()["error"]
    assert len((await client.get("/trajectories")).json()["trajectories"]) == 3


def test_a_store_from_a_newer_schema_is_refused_at_the_start(filled) -> None:
    with Store.open(filled) as store, store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0099'")
    with pytest.raises(StoreError, match="newer agentgym"):
        create_app(str(filled))


def test_a_real_server_answers_over_a_socket_and_stops_cleanly(filled: Path, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = (
        f"import uvicorn; from agentgym.server import create_app; "
        f"uvicorn.run(create_app({str(filled)!r}), host='127.0.0.1', port={port}, log_level='warning')"
    )
    log = tmp_path / "log"
    with log.open("wb") as output:
        server = subprocess.Popen([sys.executable, "-c", program], stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                answer = httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False)
                break
            except httpx.TransportError:
                assert server.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
        assert answer.json()["trajectories"] == 3
        page = httpx.get(f"http://127.0.0.1:{port}/trajectories/good/view", trust_env=False)
        assert page.headers["content-type"].startswith("text/html")
    finally:
        server.terminate()
        server.wait(timeout=30)
    assert log.read_text() == ""
