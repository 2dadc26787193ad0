"""Reading the store over HTTP."""

from __future__ import annotations

import contextlib
import sqlite3

import numpy as np
import pytest

from agentgym.server import create_app
from agentgym.store import Store, StoreError
from agentgym.store.credit import TokenCredit
from agentgym.tasks import Registry, load_task, shipped_tasks


async def test_health_tells_nothing_of_what_is_stored(client) -> None:
    assert set((await client.get("/v1/health")).json()) == {"status", "version", "schema_version"}


async def test_trajectories_are_filtered_newest_first(client) -> None:
    async def ids(query: str = "") -> list[str]:
        return [one["id"] for one in (await client.get(f"/v1/trajectories{query}")).json()["items"]]

    assert await ids() == ["good", "failed", "hostile"]
    assert await ids("?order=asc") == ["hostile", "failed", "good"]
    assert await ids("?run_id=other") == ["failed"]
    assert await ids("?termination=submitted&termination=cancelled") == ["good", "hostile"]
    assert await ids("?reward_min=0.5&has_reward=true&trainable=true") == ["good", "hostile"]
    assert await ids("?reward_max=0") == []  # a zero is a bound, not a blank
    assert await ids("?run_id=&termination=&reward_min=&policy_kind=") == ["good", "failed", "hostile"]  # a blank form


@pytest.mark.parametrize("sort", ["created_at", "reward", "steps", "calls", "tokens", "action_tokens"])
@pytest.mark.parametrize("order", ["desc", "asc"])
async def test_pages_hold_every_trajectory_once_in_any_order(client, sort, order) -> None:
    seen, cursor = [], ""
    while cursor is not None:
        asked = {"sort": sort, "order": order, "limit": 1, "cursor": cursor}
        page = (await client.get("/v1/trajectories", params=asked)).json()
        assert page["total"] == 3
        seen += page["items"]
        cursor = page["next"]
    assert sorted(one["id"] for one in seen) == ["failed", "good", "hostile"]
    values = [-1e308 if one[sort] is None else one[sort] for one in seen]
    assert values == sorted(values, reverse=order == "desc")


@pytest.mark.parametrize("value", ["task_id = CAST(x'ff' AS TEXT)", "termination = 'x'", "id = CAST(x'66ff' AS TEXT)"])
@pytest.mark.parametrize("order", ["desc", "asc"])
async def test_a_row_that_cannot_be_read_is_named_beside_the_others(client, filled, value, order) -> None:
    with contextlib.closing(sqlite3.connect(filled)) as raw:
        raw.execute(f"UPDATE trajectory SET {value} WHERE id = 'failed'")
        raw.commit()
    seen, damaged, cursor = [], [], ""
    while cursor is not None:
        answer = await client.get("/v1/trajectories", params={"limit": 1, "cursor": cursor, "order": order})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        seen += [one["id"] for one in page["items"]]
        damaged += page["damaged"]
        cursor = page["next"]
        assert len(seen) + len(damaged) <= 3
    assert sorted(seen) == ["good", "hostile"]
    assert damaged == ["f\\xff" if value.startswith("id") else "failed"]
    shown = await client.get("/trajectories")
    assert shown.status_code == 200
    assert "1 cannot be read" in shown.text


async def test_a_cursor_of_another_order_is_refused(client) -> None:
    page = (await client.get("/v1/trajectories?limit=1")).json()
    answer = await client.get("/v1/trajectories", params={"cursor": page["next"], "sort": "steps"})
    assert answer.status_code == 422
    assert "another order" in answer.json()["detail"]


async def test_one_trajectory_comes_in_the_parts_one_asks_for(client) -> None:
    assert (await client.get("/v1/trajectories/go")).json()["id"] == "good"
    detail = (await client.get("/v1/trajectories/good/detail")).json()
    assert detail["verdicts"] == {"t::a": "passed", "t::b": "failed"}
    [step] = detail["steps"]
    assert (step["tool"], step["arguments"], step["observation"]) == ("bash", {"command": "ls"}, "a.py\n")
    assert (await client.get("/v1/trajectories/good/steps/0")).json() == step
    [call] = (await client.get("/v1/trajectories/good/calls")).json()["calls"]
    assert call["prompt_token_ids"] == [1, 2, 3]
    assert call["generation_token_ids"] == [40_004, 5]
    assert call["logprobs"] == [-0.25, -1.5]
    assert call["policy_versions"] == [{"version": 7, "start": 0, "end": 1}, {"version": 8, "start": 1, "end": 2}]


async def test_tokens_come_in_columns_of_equal_length(client) -> None:
    columns = (await client.get("/v1/trajectories/good/tokens")).json()
    assert columns["ids"] == [1, 2, 3, 40_004, 5]
    assert columns["sampled"] == [0, 0, 0, 1, 1]
    assert columns["logprobs"] == [None, None, None, -0.25, -1.5]
    assert columns["version"] == [-1, -1, -1, 7, 8]
    assert columns["pieces"] is None  # no tokenizer of this model is here
    assert (await client.get("/v1/trajectories/failed/tokens")).json()["ids"] == []


async def test_what_a_learner_thought_of_each_token_comes_in_the_same_columns(client) -> None:
    store = client._transport.app.state.store
    assert (await client.get("/v1/trajectories/good/credit")).json()["updates"] == []
    for step, sign in ((1, 1.0), (2, -1.0)):
        arrays = [np.array(values, np.float32) for values in ([sign, 0.5], [1.0, 1.25])]
        store.put_credit("train", step, step + 6, {"good": TokenCredit(*arrays, np.array([True, False]))})
    newest = (await client.get("/v1/trajectories/good/credit")).json()
    assert newest["of"] == {"run_id": "train", "step": 2, "version": 8}
    assert [one["step"] for one in newest["updates"]] == [2, 1]
    assert newest["advantage"] == [None, None, None, -1.0, 0.5]
    assert newest["ratio"] == [None, None, None, 1.0, 1.25]
    assert newest["kept"] == [None, None, None, 1, 0]
    assert newest["value"] is None  # no critic
    named = (await client.get("/v1/trajectories/good/credit?run_id=train&step=1")).json()
    assert named["advantage"][3] == 1.0
    assert (await client.get("/v1/trajectories/good/credit?run_id=train&step=9")).status_code == 404
    assert (await client.get("/v1/trajectories/failed/credit")).json()["advantage"] is None


async def test_text_no_encoding_can_carry_is_still_sent(client) -> None:
    answer = await client.get("/v1/trajectories/hostile/detail")
    assert answer.status_code == 200
    [step] = answer.json()["steps"]
    assert r"\udc80" in step["observation"]
    assert step["arguments"]["n"] == "nan"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/trajectories/nothing", 404),
        ("/v1/trajectories/a%00b", 404),
        ("/v1/trajectories/good/steps/9", 404),
        ("/v1/trajectories/good/tokens?sequence=9", 404),
        ("/v1/trajectories/good/credit?sequence=9", 404),
        ("/v1/training/nothing", 404),
        ("/training/nothing", 404),
        ("/v1/tasks/nothing", 404),
        ("/v1/runs/nothing", 404),
        ("/v1/runs/nothing/events", 404),
        ("/v1/nothing", 404),
        ("/v1/trajectories?limit=0", 422),
        ("/v1/trajectories?termination=exploded", 422),
        ("/v1/trajectories?run_id=a%00b", 422),
        ("/v1/trajectories?cursor=yesterday", 422),
        ("/v1/trajectories?version_min=99999999999999999999999", 422),
        ("/trajectories?reward_min=lots", 422),
        ("/trajectories/nothing", 404),
    ],
)
async def test_a_request_that_cannot_be_answered_says_why(client, path, status) -> None:
    answer = await client.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]


async def test_registered_tasks_are_listed_with_their_status(client, filled) -> None:
    assert (await client.get("/v1/tasks")).json() == {"total": 0, "items": [], "next": None}
    task = load_task(shipped_tasks()[0])
    answer = await client.post("/v1/tasks", json={"directory": str(task.root)})
    assert (answer.status_code, answer.json()["digest"]) == (201, task.digest)
    [one] = (await client.get("/v1/tasks")).json()["items"]
    assert (one["id"], one["status"], one["digest"]) == (task.id, "registered", task.digest)
    assert (await client.get(f"/v1/tasks/{task.id}")).json() == one
    assert (await client.get("/v1/tasks?search=nosuchword")).json()["total"] == 0
    registry = Registry(filled)
    assert registry.get(task.id).digest == task.digest
    registry.close()


async def test_a_damaged_trajectory_is_an_error_of_its_own_and_does_not_hide_the_others(client, filled) -> None:
    with Store.open(filled) as store, store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE trajectory_body SET tokens = x'00' WHERE trajectory_id = 'good'")
    answer = await client.get("/v1/trajectories/good/calls")
    assert answer.status_code == 500
    assert "trajectory good" in answer.json()["detail"]
    assert len((await client.get("/v1/trajectories")).json()["items"]) == 3


async def test_the_report_and_the_policies_are_counted_from_the_store(client) -> None:
    report = (await client.get("/v1/report?run_id=run")).json()
    assert (report["episodes"], report["success"]["successes"]) == (2, 2)
    [policy] = (await client.get("/v1/policies")).json()["items"]
    assert (policy["policy"], policy["episodes"], policy["graded"], policy["version_max"]) == ("smollm2", 3, 2, 8)


async def test_metrics_count_requests_and_what_is_stored(client) -> None:
    await client.get("/v1/trajectories/good")
    text = (await client.get("/metrics")).text
    assert 'agentgym_trajectories{termination="submitted"} 2.0' in text
    assert 'route="/v1/trajectories/{trajectory_id}",status="200"} 1.0' in text


def test_a_store_from_a_newer_schema_is_refused_at_the_start(filled) -> None:
    with Store.open(filled) as store, store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0099'")
    with pytest.raises(StoreError, match="newer agentgym"):
        create_app(str(filled))
