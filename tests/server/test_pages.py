"""The HTML pages: they show what happened, and nothing that was recorded can run in them."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from agentgym.observe.text import visible
from agentgym.store.records import ContextEvent, Step
from agentgym.store.schema import server_run
from agentgym.store.states import WorkspaceState, WorkspaceStates
from agentgym.tasks import Registry, load_task


class Elements(HTMLParser):
    """Which elements and attributes a browser would see."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.scripts: set[str | None] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        given = dict(attrs)
        if tag == "script":
            self.scripts.add(given.get("src"))
        if given.get("href"):
            self.links.append(given["href"])

    def handle_data(self, data) -> None:
        self.text += data


async def test_the_first_page_lists_runs(client) -> None:
    page = Elements((await client.get("/")).text)
    assert {"/runs/run", "/runs/other"} <= set(page.links)
    assert "100% (34%–100%, n = 2)" in page.text


async def test_a_run_page_links_to_its_trajectories_and_its_behaviour(client) -> None:
    page = Elements((await client.get("/runs/run")).text)
    assert "/trajectories?run_id=run&termination=submitted" in page.links
    report = Elements((await client.get("/runs/run/report?against=other")).text)
    assert "Drift: other → run" in report.text


async def test_the_list_links_sorts_and_pages_and_keeps_its_filter(client) -> None:
    page = Elements((await client.get("/trajectories?limit=1&run_id=run")).text)
    assert "1 of 2" in page.text
    assert "/trajectories/good" in page.links
    [following] = [link for link in page.links if "cursor=" in link]
    assert "run_id=run" in following
    assert "/trajectories/hostile" in (await client.get(f"/trajectories{following}")).text
    [by_steps] = [link for link in page.links if "sort=steps" in link]
    assert "run_id=run" in by_steps
    assert "cursor" not in by_steps
    assert (await client.get(f"/trajectories{by_steps}")).status_code == 200


async def test_a_trajectory_shows_steps_termination_and_verdicts(client) -> None:
    seen = Elements((await client.get("/trajectories/good")).text).text
    for expected in ("submitted", "1 of 2 passed", "t::b", "failed", "a.py", "exit 0", "versions 7–8", "+x"):
        assert expected in seen


async def test_a_prefix_leads_to_the_whole_id(client) -> None:
    answer = await client.get("/trajectories/go")
    assert (answer.status_code, answer.headers["location"]) == (307, "/trajectories/good")


async def test_a_failure_shows_its_error_and_that_there_is_no_verdict(client) -> None:
    seen = Elements((await client.get("/trajectories/failed")).text).text
    assert "engine died" in seen
    assert "no trainer reads it" in seen


async def test_tasks_show_their_pass_rate_and_who_solved_them(client, filled, task_directory, build) -> None:
    task = load_task(task_directory)
    registry = Registry(filled)
    registry.register(task)
    registry.close()
    client._transport.app.state.store.add(build(id="solver", task_id=task.id))
    assert "100% (21%–100%, n = 1)" in Elements((await client.get("/tasks")).text).text
    page = Elements((await client.get(f"/tasks/{task.id}")).text)
    assert "/trajectories/solver" in page.links
    assert task.instruction.strip()[:40] in page.text


@pytest.mark.parametrize("path", ["/", "/trajectories", "/trajectories/hostile", "/runs/run/report", "/runs/run"])
async def test_nothing_recorded_can_run_in_a_page(client, path) -> None:
    answer = await client.get(path)
    seen = Elements(answer.text)
    assert not seen.tags & {"img", "b", "iframe"}
    assert all(source and source.startswith("/static/") for source in seen.scripts)
    assert not any(name.startswith("on") for name in seen.attributes)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'" in policy
    assert "unsafe" not in policy
    if path == "/trajectories/hostile":
        assert "<script>alert(1)</script>␛[31mred␀" in seen.text  # visible, as text
        assert "{{ 7*7 }}" in seen.text
    assert "\u202e" not in answer.text


async def test_pages_load_nothing_from_elsewhere(client) -> None:
    for path in (
        "/",
        "/runs/run",
        "/trajectories",
        "/trajectories/good",
        "/trajectories/good/tokens",
        "/docs",
        "/tasks",
    ):
        answer = await client.get(path)
        assert answer.status_code == 200
        page = Elements(answer.text)
        assert not [link for link in page.links if "//" in link]
        for link in [one for one in (*page.links, *page.scripts) if one and one.startswith("/static/")]:
            assert (await client.get(link)).status_code == 200, link


@pytest.mark.parametrize("name", ["../app.py", "%2e%2e/app.py", "..%2fapp.py", "/etc/passwd", "vendor", "a%00.js"])
async def test_only_static_files_are_static(client, name) -> None:
    assert (await client.get(f"/static/{name}")).status_code == 404


def test_control_characters_become_visible_and_lines_stay_lines() -> None:
    assert visible("a\tb\nc\r\nd\x07\x7f\x9b\ufeff") == "a\tb\nc\nd␇␡⟨U+009B⟩\ufeff"


async def test_the_states_that_a_replay_graded_stand_at_their_steps(client) -> None:
    store = client._transport.app.state.store
    assert (await client.get("/v1/trajectories/good/states")).status_code == 404
    states = (WorkspaceState(0, "t0", "-a\n+<b>b</b>\n", 1.0),)
    store.put_states(WorkspaceStates("good", states))
    page = Elements((await client.get("/trajectories/good")).text)
    assert "first passed at step 0" in page.text
    assert "hidden tests pass" in page.text
    assert "+<b>b</b>" in page.text
    answer = (await client.get("/v1/trajectories/go/states")).json()
    assert (answer["solved_at"], answer["broken_at"], answer["states"][0]["diff"]) == (0, None, "-a\n+<b>b</b>\n")


async def test_far_turns_are_named_at_once_and_come_in_full_when_asked_for(client, build, recorded) -> None:
    call = replace(recorded[0].calls[0], context_event=ContextEvent.REWRITTEN)
    steps = tuple(Step(k, "bash", {"command": f"echo {k}"}, f"said {k}\n") for k in range(40))
    client._transport.app.state.store.add(build(id="many", calls=(call,) * 40, steps=steps))
    text = (await client.get("/trajectories/many")).text
    assert text.count('class="step') == 40
    assert ("said 29\n" in text, "said 30\n" in text) == (True, False)
    later = Elements((await client.get("/trajectories/many/turns?first=30&count=5")).text)
    assert "said 30" in later.text
    assert "said 34" in later.text
    assert "said 35" not in later.text
    assert "html" not in later.tags
    assert (await client.get("/trajectories/many/turns?first=39")).text.count("<section") == 1
    assert (await client.get("/trajectories/many/turns?first=0&count=5000")).status_code == 422


async def test_a_replays_run_page_shows_what_came_back_different(client, tmp_path) -> None:
    divergence = {"step": 1, "diff": "-a\n+<i>b</i>"}
    again = {"steps": 2, "identical": 1, "seconds": 1.5, "first_divergence": divergence}
    found = {"trajectory": "good", "task": "t", "reexecute": again}
    child = {
        "trajectory": "hostile",
        "task": "t",
        "children": [{"trajectory": "c1", "termination": "submitted", "reward": None}],
    }
    (tmp_path / "result.json").write_text(json.dumps({"trajectories": [found, child]}))
    with client._transport.app.state.store.engine.begin() as connection:
        row = {
            "id": "rep",
            "kind": "replay",
            "config": {},
            "status": "done",
            "attempt": 1,
            "host": "h",
            "created_at": 1.0,
        }
        connection.execute(server_run.insert(), row | {"directory": str(tmp_path)})
    page = Elements((await client.get("/runs/rep")).text)
    assert "1 of 2 steps came back the same" in page.text
    assert "+<i>b</i>" in page.text
    assert {"/trajectories/good#step-1", "/trajectories/c1"} <= set(page.links)
