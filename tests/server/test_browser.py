"""The pages in a real browser, against a real server and a real store: what is seen, the keys, and accessibility (axe).

Needs Debian's chromium and playwright; without them the tests are skipped and say so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from serving import serving

from agentgym.store import Store
from agentgym.store.credit import TokenCredit
from agentgym.store.records import FinishReason, ModelCall, Sampling, Step, VersionSpan

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect
expect.set_options(timeout=30_000)  # as long as a page waits for anything else
axe_package = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: agentgym doctor --for tests --fix")


@pytest.fixture(scope="module")
def server(tmp_path_factory, recorded, build) -> Iterator[str]:
    """The address of `agentgym serve` over the usual trajectories and a long one."""
    path = tmp_path_factory.mktemp("browser") / "store.db"
    rng = np.random.default_rng(0)
    prompt = rng.integers(0, 40_000, 300).astype(np.int32)
    calls, steps = [], []
    for number in range(45):
        generation = rng.integers(0, 40_000, 80).astype(np.int32)
        logprobs = -rng.exponential(1, 80).astype(np.float32)
        spans = (VersionSpan(number // 6, 0, 80),)
        calls.append(ModelCall(prompt, generation, logprobs, Sampling(), spans, FinishReason.STOP))
        steps.append(
            Step(number, "bash", {"command": f"echo needle{number}"}, f"needle{number}\n", exit_code=number % 5)
        )
        prompt = np.concatenate([prompt, generation, rng.integers(0, 40_000, 60).astype(np.int32)])
    with Store.open(path) as store:
        for one in recorded:
            store.add(one)
        store.add(build(id="long", calls=tuple(calls), steps=tuple(steps), created_at=9.0))
        learned = [rng.normal(size=80 * len(calls)).astype(np.float32) for _ in range(2)]
        ratios, kept = np.exp(learned[0] / 10), rng.random(80 * len(calls)) > 0.2
        store.put_credit("train", 1, 0, {"long": TokenCredit(learned[0], ratios, kept, learned[1])})
        for step in (1, 2):
            store.put_metrics("train", step, {"policy_loss": 0.5, "logprob_gap": 0.01 * step, "advantage/0": 0.1})
    with serving(path) as one:
        yield one.url


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser, server) -> Iterator:
    context = browser.new_context(base_url=server, viewport={"width": 1200, "height": 900})
    opened = context.new_page()
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    opened.on("request", lambda request: request.url.startswith(server) or faults.append(f"asks {request.url}"))
    yield opened
    context.close()
    assert not faults


def test_from_the_list_of_runs_to_a_token(page) -> None:
    page.goto("/")
    page.get_by_role("link", name="run", exact=True).first.click()
    page.get_by_role("link", name="trajectories").last.click()
    page.wait_for_url("**/trajectories?run_id=run")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/trajectories/long")
    page.keyboard.press("t")
    page.wait_for_url("**/tokens")
    page.wait_for_selector("#heat[data-ready]")
    page.keyboard.press("j")
    assert "logprob" in page.locator("#token").inner_text()


def test_steps_are_reached_by_key_by_link_and_by_search(page) -> None:
    page.goto("/trajectories/long#step-7")
    page.wait_for_selector("#step-7.current")
    page.keyboard.press("j")
    page.wait_for_selector("#step-8.current")
    assert page.url.endswith("#step-8")
    page.keyboard.press("x")  # the next that failed
    page.wait_for_selector("#step-9.current")
    page.keyboard.press("/")
    page.keyboard.type("needle44")  # far away: its text comes first
    expect(page.locator("#found")).to_have_text("1 of 45 calls")
    assert page.locator("#found").text_content() == "1 of 45 calls"
    assert page.locator(".turn:visible").count() == 1


def test_far_steps_are_named_at_once_and_their_text_comes_when_a_reader_comes_near(page) -> None:
    page.goto("/trajectories/long")
    assert page.locator(".step").count() == 45
    assert page.locator(".turn.shell").count() in range(1, 16)
    page.goto("/trajectories/long#step-40")
    page.wait_for_selector("#step-40.current")
    assert "needle40" in page.locator("#step-40 .observation").inner_text()
    page.evaluate("document.querySelectorAll('.turn').forEach((one) => one.scrollIntoView())")
    expect(page.locator(".turn.shell")).to_have_count(0)
    assert page.locator(".observation").count() == 45


def test_the_heat_map_colours_by_what_a_learner_thought_and_says_what_a_colour_means(page) -> None:
    page.goto("/trajectories/long/tokens#call-0")
    page.wait_for_selector("#heat[data-ready]")
    page.keyboard.press("h")
    assert page.evaluate("document.activeElement.id") == "colour"
    for choice, shades in {
        "advantage": ("n4", "g4"),
        "ratio": ("n4", "g4"),
        "value": ("h0", "h5"),
        "mask": ("g3", "n3"),
    }.items():
        page.select_option("#colour", choice)
        for shade in shades:
            page.wait_for_selector(f"#heat i.{shade}", state="attached")
        assert page.locator("#legend li").count() >= 3
    page.keyboard.press("Tab")
    page.locator("#heat").focus()
    page.keyboard.press("ArrowRight")
    said = page.locator("#token").inner_text()
    assert "advantage" in said
    assert "ratio" in said
    assert page.locator("#update option").all_inner_texts() == ["train, update 1 (version 0)"]
    page.goto("/trajectories/good/tokens")
    page.wait_for_selector("#heat[data-ready]")
    assert page.locator("#unlearned").is_visible()
    assert page.locator("#colour option[value=advantage]").is_disabled()


def test_training_curves_stand_under_their_questions(page) -> None:
    page.goto("/training")
    page.get_by_role("link", name="train", exact=True).click()
    page.wait_for_selector("#training[data-ready]")
    page.wait_for_selector(".chart canvas")
    asked = page.locator("section h2").all_inner_texts()
    assert asked == ["Progress", "Credit", "Fidelity", "Freshness", "Environment", "Everything else"]
    assert page.locator("section", has_text="Fidelity").locator("figure").count() == 1


def test_a_training_run_without_episodes_has_no_link_to_them_and_every_link_of_a_page_leads_somewhere(
    page, server
) -> None:
    for path in PAGES:
        page.goto(path)
        links = page.eval_on_selector_all("a[href]", "all => all.map((one) => one.href)")
        inside = {link.partition("#")[0] for link in links if link.startswith(server)}
        broken = [link for link in inside if httpx.get(link, trust_env=False, timeout=60).status_code != 200]
        assert broken == [], path


ZEROS = """async () => {
  const { curves } = await import("/static/chart.js");
  const drawn = curves(document.body, { xLabel: "x", x: [1, 2], lines: [{ name: "y", y: [0, 0] }], width: 300, height: 200 });
  await new Promise(requestAnimationFrame);
  return [drawn.scales.y.min, drawn.scales.y.max];
}"""


def test_values_that_are_all_zero_stand_on_a_scale_of_one(page) -> None:
    page.goto("/runs/run")
    page.wait_for_selector("#charts[data-ready]")
    assert page.evaluate(ZEROS) == [0, 1]


def test_calls_of_the_heat_map_are_reached_without_keys_and_by_link(page) -> None:
    page.goto("/trajectories/long/tokens")
    page.wait_for_selector("#heat[data-ready]")
    for _ in range(2):
        page.get_by_role("button", name="call ›").click()
    expect(page.locator("#token")).to_contain_text("call 1")
    expect(page.locator("#heat i.at.s")).to_be_in_viewport()
    page.get_by_role("button", name="‹ call").click()
    expect(page.locator("#token")).to_contain_text("call 0")
    page.evaluate("location.hash = '#call-7'")
    expect(page.locator("#token")).to_contain_text("call 7")
    page.goto("/trajectories/good")
    page.goto("/trajectories/long/tokens#call-30")  # all above it is still to be drawn
    page.wait_for_selector("#heat[data-ready]")
    page.wait_for_timeout(1500)
    expect(page.locator("#token")).to_contain_text("call 30")
    expect(page.locator("#heat i.at.s")).to_be_in_viewport()
    page.locator("#heat i.s").nth(3).click()
    expect(page.locator("#token")).to_contain_text("logprob")


def test_a_list_that_its_filters_leave_empty_says_so_and_leads_back(page) -> None:
    page.goto("/trajectories?run_id=nothing&sort=reward")
    expect(page.get_by_text("No trajectory matches these filters.")).to_be_visible()
    page.get_by_role("link", name="without filters").click()
    assert page.locator("#rows tbody tr").count() == 4
    assert page.get_by_role("link", name="without filters").count() == 0


@pytest.mark.parametrize(
    ("path", "name"), [("/runs/run", "runs"), ("/trajectories/long/tokens", "trajectories"), ("/docs", "API")]
)
def test_the_navigation_says_where_one_is(page, path, name) -> None:
    page.goto(path)
    assert page.locator("nav [aria-current=page]").all_inner_texts() == [name]


def test_the_heat_map_shows_every_token_with_what_was_recorded(page, server) -> None:
    columns = httpx.get(f"{server}/v1/trajectories/long/tokens", trust_env=False).json()
    page.goto("/trajectories/long/tokens#call-3")
    page.wait_for_selector("#heat[data-ready]")
    first = columns["call"].index(3, columns["sampled"].index(1))
    at = next(
        place
        for place in range(first, len(columns["ids"]))
        if columns["call"][place] == 3 and columns["sampled"][place]
    )
    said = page.locator("#token").inner_text()
    assert f"id {columns['ids'][at]} " in said
    assert f"logprob {columns['logprobs'][at]} nats" in said
    page.keyboard.press("ArrowRight")
    assert f"position {at + 1} " in page.locator("#token").inner_text()
    page.evaluate("document.querySelectorAll('#heat .block').forEach((one) => one.scrollIntoView())")
    expect(page.locator("#heat .block:not([data-drawn])")).to_have_count(0)
    assert page.locator("#heat i").count() == len(columns["ids"])
    assert page.locator("#heat i.s").count() == sum(columns["sampled"])
    page.select_option("#colour", "version")
    page.wait_for_selector("#heat i.v1")


def test_a_hostile_trajectory_runs_nothing(page) -> None:
    page.on("dialog", lambda dialog: pytest.fail(f"a recorded script ran: {dialog.message}"))
    page.goto("/trajectories/hostile")
    assert "<script>alert(1)</script>" in page.locator(".observation").inner_text()
    page.goto("/trajectories/hostile/tokens")
    page.wait_for_selector("#heat[data-ready]")


def test_light_and_dark_are_kept(page) -> None:
    page.goto("/")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert before != after
    page.goto("/trajectories")
    page.wait_for_selector("html[data-theme]")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after


def test_curves_are_drawn(page) -> None:
    page.goto("/runs/run")
    page.wait_for_selector("#charts[data-ready]")
    assert page.locator("#charts canvas").count() == 3


PAGES = (
    "/",
    "/runs/run",
    "/runs/run/report",
    "/trajectories",
    "/trajectories/long",
    "/trajectories/long/tokens",
    "/training",
    "/training/train",
    "/tasks",
    "/docs",
    "/login",
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_pages_are_accessible(browser, server, path, scheme) -> None:
    context = browser.new_context(base_url=server, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(path)
    if path.endswith("tokens"):
        page.wait_for_selector("#heat[data-ready]")
    page.add_script_tag(path=str(Path(axe_package.__file__).with_name("axe.min.js")))
    found = page.evaluate("axe.run().then((result) => result.violations)")
    context.close()
    assert [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found] == []


def test_a_phone_scrolls_only_down(browser, server) -> None:
    context = browser.new_context(base_url=server, viewport={"width": 380, "height": 800})
    page = context.new_page()
    for path in PAGES:
        page.goto(path)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 380, (path, width)
        assert page.locator("header").bounding_box()["height"] < 100, "the header leaves the screen to the page"
    context.close()


PICTURES = {
    "runs": "/",
    "trajectories": "/trajectories",
    "trajectory": "/trajectories/long#step-3",
    "tokens": "/trajectories/long/tokens#call-1",
    "training": "/training/train",
}


def test_pictures_of_the_pages_are_taken_for_the_documentation(page, tmp_path) -> None:
    """`make docs` says where to with AGENTGYM_PICTURES."""
    target = Path(os.environ.get("AGENTGYM_PICTURES") or tmp_path)
    target.mkdir(exist_ok=True)
    for name, path in PICTURES.items():
        page.goto(path)
        if name == "tokens":
            page.wait_for_selector("#heat[data-ready]")
            page.select_option("#colour", "advantage")
        if name == "training":
            page.wait_for_selector(".chart canvas")
        page.screenshot(path=target / f"{name}.png")
        assert (target / f"{name}.png").stat().st_size > 10_000
