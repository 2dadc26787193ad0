"""What a training run measured, under the questions it answers: over the API and as a page."""

from __future__ import annotations

import pytest


@pytest.fixture
def measured(client):
    """A run of three updates whose second has no critic numbers."""
    store = client._transport.app.state.store
    common = {"policy_loss": 0.1, "logprob_gap": 0.02, "staleness_mean": 1.5, "kept_fraction": 0.75, "odd/one": 3.0}
    for step in (1, 2, 3):
        critic = {} if step == 2 else {"explained_variance": 0.1 * step}
        positions = {f"advantage/{tenth}": float(step * tenth) for tenth in (0, 5)} | {"advantage_size/0": 2.0}
        store.put_metrics(
            "run", step, common | critic | positions | {"phase_seconds/tool": 2.0, "phase_seconds/grade": 1.0}
        )
    return client


async def test_curves_stand_under_their_question_and_nothing_measured_is_hidden(measured) -> None:
    answer = (await measured.get("/v1/training/run")).json()
    charts = {one["name"]: {chart["title"]: chart for chart in one["charts"]} for one in answer["questions"]}
    assert list(charts) == ["Progress", "Credit", "Fidelity", "Freshness", "Environment", "Everything else"]
    explained = charts["Credit"]["variance the critic explains"]
    assert (explained["x"], explained["lines"]) == (
        [1, 2, 3],
        [{"name": "explained_variance", "y": [0.1, None, pytest.approx(0.3)]}],
    )
    [masked] = charts["Freshness"]["masked tokens"]["lines"]
    assert masked["y"] == [0.25, 0.25, 0.25]
    assert [line["name"] for line in charts["Environment"]["time of an episode by phase"]["lines"]] == ["grade", "tool"]
    assert list(charts["Everything else"]) == ["odd/one"]


async def test_the_advantage_along_an_episode_is_that_of_the_newest_update(measured) -> None:
    answer = (await measured.get("/v1/training/run")).json()
    [credit] = [one for one in answer["questions"] if one["name"] == "Credit"]
    along = credit["charts"][-1]
    assert along["x"] == list(range(1, 11))
    assert along["lines"][0] == {"name": "mean", "y": [0, None, None, None, None, 15, None, None, None, None]}


async def test_a_long_run_is_thinned_and_keeps_its_newest_update(measured) -> None:
    store = measured._transport.app.state.store
    for step in range(4, 2502, 3):
        store.put_metrics("run", step, {"policy_loss": float(step)})
    x = (await measured.get("/v1/training/run")).json()["questions"][0]["charts"][0]["x"]
    assert len(x) <= 1000
    assert x[-1] == 2500
    assert x == sorted(x)


async def test_runs_with_numbers_are_listed_and_the_run_page_leads_to_them(measured) -> None:
    [one] = (await measured.get("/v1/training")).json()["items"]
    assert (one["run_id"], one["updates"], one["step"]) == ("run", 3, 3)
    assert '<a href="/training/run">' in (await measured.get("/training")).text
    assert '<a href="/training/run">' in (await measured.get("/runs/run")).text
    assert '<a href="/training/other">' not in (await measured.get("/runs/other")).text


async def test_the_page_shows_each_lines_newest_value_without_script(measured) -> None:
    text = (await measured.get("/training/run")).text
    assert "Does the learner compute the probabilities that were sampled from?" in text
    assert "logprob_gap 0.02" in text
