"""Episodes registered over HTTP: a key, a sandbox, a grade in the store, and nothing left behind."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import httpx
import pytest

from agentgym.store import Store
from agentgym.store.check import check_store
from agentgym.tasks import TaskError
from harness.gateway.app import create_app
from harness.gateway.desk import Desk
from harness.gateway.gateway import Gateway
from harness.gateway.server import serving
from harness.profile import Limits, load_profile

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("grade_each_patch_once")]


@pytest.fixture
def offered(tmp_path: Path, backend, task, renderer, typist):
    """A served desk; calls take method, path, key and body."""

    def find(name: str):
        if name != task.id:
            raise TaskError(f"no task {name!r}")
        return task

    class Offered:
        async def __aenter__(self):
            self.store = Store.open(tmp_path / "store.db")
            profile = load_profile("gateway").model_copy(update={"limits": Limits(max_turns=2)})
            gateway = Gateway()
            self.desk = Desk(gateway, self.store, backend, typist, renderer, profile, find, "run", capacity=1)
            self.serving = serving(create_app(gateway, self.desk))
            self.client = httpx.AsyncClient(base_url=await self.serving.__aenter__(), timeout=120)
            return self

        async def __aexit__(self, *_):
            await self.client.aclose()
            await self.desk.close()
            await self.serving.__aexit__(None, None, None)
            self.store.close()

        async def __call__(self, method: str, path: str, key: str | None = None, **body):
            headers = {"Authorization": f"Bearer {key or self.desk.key}"}
            answer = await self.client.request(method, path, headers=headers, json=body or None)
            return answer.status_code, answer.json()

    return Offered()


async def test_register_act_finish_and_read_the_verdict(offered, task, typist) -> None:
    async with offered as call:
        status, episode = await call("POST", "/episodes", task=task.id, seed=3, group_id="g", agent="my-agent")
        assert status == 201
        assert (episode["instruction"], episode["workdir"]) == (task.instruction, task.workdir)
        assert (await call("GET", f"/episodes/{episode['id']}"))[1]["status"] == "open"
        assert (await call("POST", "/episodes", task=task.id))[1]["error"]["code"] == "too_many_episodes"

        key = episode["key"]
        typist.say("I will.")
        await call("POST", "/v1/chat/completions", key, messages=[{"role": "user", "content": "Go."}])
        _, seen = await call(
            "POST", "/episode/exec", key, command="cat; pwd; echo $A; exit 3", stdin="in ", env={"A": "b"}
        )
        assert seen == {"output": f"in {task.workdir}\nb\n", "exit_code": 3, "truncated": False}
        status, refused = await call("POST", "/episode/exec", key, comand="ls")
        assert (status, "comand" in refused["error"]["message"]) == (400, True)
        await call("POST", "/episode/finish", key)
        _, done = await call("GET", f"/episodes/{episode['id']}?wait=120")
        assert (done["status"], done["termination"], done["reward"]) == ("stored", "submitted", 0.0)
        assert (await call("GET", "/episode", key))[0] == 401

        trajectory = offered.store.get(done["trajectory"])
        assert (trajectory.run_id, trajectory.group_id, trajectory.seed) == ("run", "g", 3)
        assert [step.valid for step in trajectory.steps] == [True, False]
        document = offered.store.get_document(trajectory.harness_digest)
        assert document["profile"]["name"] == "my-agent"
        assert check_store(offered.store).ok


async def test_a_spent_budget_ends_it_without_the_agent(offered, task, typist) -> None:
    async with offered as call:
        _, episode = await call("POST", "/episodes", task=task.id)
        for turn in range(3):
            typist.say("x")
            await call(
                "POST", "/v1/chat/completions", episode["key"], messages=[{"role": "user", "content": f"{turn}"}]
            )
        _, done = await call("GET", f"/episodes/{episode['id']}?wait=120")
        assert (done["status"], done["termination"]) == ("stored", "max_steps")


async def test_what_is_given_up_leaves_nothing(offered, task) -> None:
    async with offered as call:
        _, episode = await call("POST", "/episodes", task=task.id)
        _, state = await call("DELETE", f"/episodes/{episode['id']}")
        assert (state["status"], state["error"]) == ("failed", "cancelled")
        assert (await call("GET", "/episode", episode["key"]))[0] == 401
        assert offered.store.count() == 0


async def test_what_is_being_stored_is_not_given_up(offered, task, typist, monkeypatch) -> None:
    """Whoever gives an episode up is told what the store holds."""
    begun, go_on = threading.Event(), threading.Event()
    async with offered as call:
        _, episode = await call("POST", "/episodes", task=task.id)
        add = offered.store.add

        def slow(*given):
            begun.set()
            go_on.wait(60)
            return add(*given)

        monkeypatch.setattr(offered.store, "add", slow)
        typist.say("I will.")
        await call("POST", "/v1/chat/completions", episode["key"], messages=[{"role": "user", "content": "Go."}])
        await call("POST", "/episode/finish", episode["key"])
        await asyncio.to_thread(begun.wait, 120)
        given_up = asyncio.create_task(call("DELETE", f"/episodes/{episode['id']}"))
        await asyncio.sleep(0.3)
        go_on.set()
        assert (await given_up)[1]["status"] == "stored"
        assert offered.store.count() == 1


async def test_no_more_are_open_at_once_than_there_is_room_for(offered, task) -> None:
    async with offered as call:
        answers = await asyncio.gather(*(call("POST", "/episodes", task=task.id) for _ in range(3)))
        assert sorted(status for status, _ in answers) == [201, 429, 429]


async def test_registering_wants_the_desks_key_and_a_known_task(offered, task) -> None:
    async with offered as call:
        for method, path in (("POST", "/episodes"), ("GET", "/episodes/x"), ("DELETE", "/episodes/x")):
            status, answer = await call(method, path, "sk-wrong", task=task.id)
            assert (status, answer["error"]["code"]) == (401, "invalid_api_key")
        assert (await call("POST", "/episodes", task="nosuch"))[1]["error"]["param"] == "task"
        assert (await call("POST", "/episodes", task=task.id, seed="x"))[1]["error"]["param"] == "seed"
        assert (await call("POST", "/episodes", task=5))[1]["error"]["param"] == "task"
        for odd in ({"group_id": "g\0"}, {"group_id": "g" * 65}, {"agent": "a\0"}, {"agent": ""}):
            assert (await call("POST", "/episodes", task=task.id, **odd))[1]["error"]["param"] == next(iter(odd))
        assert (await call("POST", "/episodes", task=task.id, colour="red"))[1]["error"]["param"] == "colour"
        assert (await call("GET", "/episodes/nosuch"))[0] == 404


async def test_closing_the_desk_closes_what_is_open(offered, task) -> None:
    async with offered as call:
        _, episode = await call("POST", "/episodes", task=task.id)
        waiting = asyncio.create_task(call("GET", f"/episodes/{episode['id']}?wait=60"))
        await asyncio.sleep(0.2)
        await offered.desk.close()
        assert (await waiting)[1]["error"] == "cancelled"
