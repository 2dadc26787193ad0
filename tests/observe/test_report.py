"""From a real store to a report, its drift, its page and its command."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from observe_steps import INVALID, SUBMIT, edit, sh, trajectory

from agentgym.observe import drift, observe, wilson
from agentgym.observe.audit import audit
from agentgym.observe.drift import divergence
from agentgym.observe.html import report_html
from agentgym.observe.intervals import difference
from agentgym.observe.reading import behaviours
from agentgym.observe.template import of_scores
from agentgym.store import Store, TrajectoryFilter
from agentgym.store.records import Termination

HOSTILE = "</code><script>alert(1)</script>\u202e\x00os._exit(0)"


@pytest.fixture
def store(tmp_path: Path):
    """Run "a": tests are run, half succeeds. Run "b": all edit a test file and succeed. One environment failure."""
    path = tmp_path / "store.db"
    with Store.open(path) as opened:
        for index in range(20):
            steps = (sh("cat a.py"), edit("str_replace", "a.py"), sh("pytest", "1 passed"), SUBMIT)
            steps = steps if index % 2 else (INVALID, SUBMIT)
            task = "mixed" if index < 10 else ("good" if index % 2 else "bad")
            opened.add(
                trajectory(
                    steps, id=f"a{index}", run_id="a", reward=float(index % 2), task_id=task, version=index // 10
                )
            )
            bad = (edit("str_replace", "tests/test_a.py", HOSTILE), SUBMIT)
            opened.add(trajectory(bad, id=f"b{index}", run_id="b", reward=1.0, task_id="mixed", patch=HOSTILE))
        opened.add(
            trajectory(
                (), id="lost", run_id="a", reward=None, termination=Termination.ENVIRONMENT_FAILURE, task_id="bad"
            )
        )
        yield opened


def test_wilson_against_published_values() -> None:
    # Newcombe 1998, table I, method 3: 81 of 263 and 0 of 20; table II, method 10: 56/70 - 48/80.
    assert (wilson(81, 263).low, wilson(81, 263).high) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert (wilson(0, 20).low, wilson(0, 20).high) == pytest.approx((0.0, 0.1611), abs=5e-5)
    by = difference(wilson(56, 70), wilson(48, 80))
    assert (by.low, by.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert wilson(0, 0).share is None


def test_success_is_conditioned_on_behaviour_and_failures_of_the_environment_count_nowhere(store) -> None:
    report = observe(store, TrajectoryFilter(run_id="a"))
    rows = {row.name: row for row in report.behaviours}
    assert (report.episodes, report.ungraded, report.success.successes, report.success.trials) == (21, 1, 10, 20)
    assert (rows["tests_before_submit"].success.successes, rows["tests_before_submit"].success.trials) == (10, 10)
    assert (rows["tests_before_submit"].otherwise.successes, rows["tests_before_submit"].otherwise.trials) == (0, 10)
    assert rows["invalid_call"].effect.is_clear
    assert rows["invalid_call"].effect.value == -1
    assert {row.name: row.episodes for row in report.terminations} == {"submitted": 20, "environment_failure": 1}
    assert {row.name: row.success.share for row in report.tools}["bash"] == 1
    assert report.spreads["seconds"].median == 3.0
    assert {version: one.trials for version, one in report.versions.items()} == {0: 10, 1: 10}


def test_tasks_tell_whether_they_teach(store) -> None:
    report = observe(store, TrajectoryFilter(run_id="a"))
    rows = {row.task_id: row for row in report.tasks}
    assert (rows["mixed"].all_same, rows["mixed"].reward_variance) == (None, 0.25)
    assert (rows["good"].all_same, rows["bad"].all_same) == ("all-pass", "all-fail")
    assert report.shared_outcome["all-pass"].share == pytest.approx(1 / 3)


def test_length_bins_hold_every_graded_episode_once(store) -> None:
    for bins in observe(store).bins.values():
        assert sum(one.success.trials for one in bins) == 40
        assert all(before.high < after.low for before, after in itertools.pairwise(bins))


def test_suspects_name_the_step_and_rewarded_ones_come_first(store) -> None:
    report = observe(store)
    assert report.reasons["test_files_touched"] == 20
    assert all(one.id.startswith("b") for one in report.suspects)
    assert ("test_files_touched", 0, "tests/test_a.py") in report.suspects[0].flags


def test_a_damaged_trajectory_is_named_and_the_rest_is_read(store) -> None:
    with store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE trajectory_body SET detail = x'00' WHERE trajectory_id = 'a3'")
    report = observe(store, TrajectoryFilter(run_id="a"))
    assert (report.unreadable, report.episodes) == (("a3",), 20)


def test_drift_between_two_runs_is_clear_where_it_is_and_quiet_where_nothing_moved(store) -> None:
    first, second = (observe(store, TrajectoryFilter(run_id=run)) for run in "ab")
    moved = drift(first, second)
    assert (moved.success.before, moved.success.after, moved.success.clear) == (0.5, 1.0, True)
    assert {one.name for one in moved.shares if one.clear} >= {"suspicious", "ran_tests"}
    assert moved.mixes["tools"] > 0.1
    same = drift(first, first)
    assert not any(one.clear for one in (same.success, *same.shares, *same.means))
    assert same.mixes == {"tools": 0, "terminations": 0}
    assert divergence({"a": 3}, {"b": 5}) == pytest.approx(1)


def test_the_reading_list_is_drawn_evenly_and_the_same_again(store) -> None:
    def draw() -> list[str]:
        drawn = audit(behaviours(store, TrajectoryFilter()), 3, seed=7)
        assert all(one.success for one in drawn.positive)
        assert not any(one.success for one in drawn.negative)
        return [one.id for one in (*drawn.positive, *drawn.negative)]

    assert draw() == draw()
    assert len(draw()) == 6


def test_template_collapse_is_seen_in_scores() -> None:
    lengths = [10] * 4
    looking = np.full((4, 4), -100.0) + 90 * np.eye(4)
    report = of_scores(looking, lengths)
    assert (report.mutual_information, report.retrieval) == (pytest.approx(math.log(4), abs=1e-6), 1.0)
    assert report.entropy == pytest.approx(1.0)
    assert not report.collapsed
    blind = of_scores(np.full((4, 4), -20.0), lengths)
    assert blind.mutual_information == pytest.approx(0)
    assert blind.collapsed


class Seen(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data) -> None:
        self.words += data


def test_the_page_stands_alone_and_nothing_recorded_runs_in_it(store) -> None:
    before, after = observe(store, TrajectoryFilter(run_id="a")), observe(store, TrajectoryFilter(run_id="b"))
    drawn = audit(behaviours(store, TrajectoryFilter()), 2)
    seen = Seen(report_html(after, change=drift(before, after), reading=drawn, base="http://127.0.0.1:8000/"))
    names = {tag for tag, _ in seen.tags}
    assert {"svg", "style"} <= names
    assert not names & {"script", "img", "link", "iframe"}
    assert not [attributes for _, attributes in seen.tags if "src" in attributes]
    assert "</code><script>alert(1)</script>⟨U+202E⟩␀os._exit(0)" in seen.words
    assert any(attributes.get("href") == "http://127.0.0.1:8000/trajectories/b0#step-0" for _, attributes in seen.tags)


def agentgym(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "agentgym", *arguments], capture_output=True, text=True, check=False)


def test_the_command_writes_the_page_and_one_document(store, tmp_path) -> None:
    page = tmp_path / "report.html"
    path = store.engine.url.database
    done = agentgym("report", "b", "--against", "a", "--audit", "2", "-o", str(page), "--store", path, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["episodes"], document["success"]["share"], document["drift"]["success"]["clear"]) == (
        20,
        1.0,
        True,
    )
    assert len(document["audit"]["positive"]) == 2
    assert page.read_text().startswith("<!doctype html>")
    missing = agentgym("report", "nosuchrun", "--store", path, "--json")
    assert missing.returncode == 2
    assert "nosuchrun" in json.loads(missing.stdout)["error"]["message"]
