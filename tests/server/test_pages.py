"""The HTML pages: they show what happened, and nothing that was recorded can run in them."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from agentgym.observe.text import visible
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
