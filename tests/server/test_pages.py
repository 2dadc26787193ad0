"""The HTML pages: they show what happened, and nothing that was recorded can run in them."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from agentgym.observe.text import visible


class Elements(HTMLParser):
    """Which elements and attributes a browser would see."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data) -> None:
        self.text += data


async def test_the_list_links_to_every_trajectory(client) -> None:
    page = (await client.get("/")).text
    for name in ("good", "failed", "hostile"):
        assert f"/trajectories/{name}/view" in page
    assert "3 of 3" in page


async def test_the_list_pages_and_keeps_its_filter(client) -> None:
    page = (await client.get("/?limit=1&run_id=run")).text
    assert "1 of 2" in page
    assert "/trajectories/good/view" in page
    link = page.split("older")[0].rsplit('href="', 1)[1].split('"')[0].replace("&amp;", "&")
    assert "run_id=run" in link
    assert "/trajectories/hostile/view" in (await client.get(f"/{link}")).text


async def test_a_trajectory_shows_steps_termination_and_verdicts(client) -> None:
    seen = Elements((await client.get("/trajectories/good/view")).text).text
    for expected in ("submitted", "1 of 2 passed", "t::b", "failed", "a.py", "exit 0", "versions 7–8", "+x"):
        assert expected in seen
    assert "40004" not in seen


async def test_tokens_are_shown_on_demand(client) -> None:
    seen = Elements((await client.get("/trajectories/good/view?call=0")).text).text
    assert "40004" in seen
    assert "-0.25" in seen


async def test_a_failure_shows_its_error_and_that_there_is_no_verdict(client) -> None:
    seen = Elements((await client.get("/trajectories/failed/view")).text).text
    assert "engine died" in seen
    assert "no trainer reads it" in seen


@pytest.mark.parametrize("path", ["/", "/trajectories/hostile/view?call=0"])
async def test_nothing_recorded_can_run_in_a_page(client, path) -> None:
    answer = await client.get(path)
    seen = Elements(answer.text)
    assert not seen.tags & {"script", "img", "b", "i", "iframe"}
    assert not any(name.startswith("on") for name in seen.attributes)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    if "hostile" in path:
        assert "<script>alert(1)</script>␛[31mred␀" in seen.text  # visible, as text
        assert "{{ 7*7 }}" in seen.text
        assert "\u202e" not in answer.text


async def test_the_style_sheet_is_served(client) -> None:
    assert (await client.get("/style.css")).headers["content-type"].startswith("text/css")


def test_control_characters_become_visible_and_lines_stay_lines() -> None:
    assert visible("a\tb\nc\r\nd\x07\x7f\x9b\ufeff") == "a\tb\nc\nd␇␡⟨U+009B⟩\ufeff"
