"""Which task next: bands, unknown tasks, seeded draws, the growing horizon."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from agentgym.tasks import Task
from trainer.online.config import CurriculumRules
from trainer.online.curriculum import Curriculum
from trainer.online.errors import RolloutsStalled


@pytest.fixture
def tasks(task: Task) -> list[Task]:
    return [replace(task, id=f"t{n}", digest=f"sha256:{n}") for n in range(4)]


def curriculum(tasks: list[Task], **rules: object) -> Curriculum:
    return Curriculum(tasks, CurriculumRules.model_validate(rules), max_turns=8, seed=0)


def shares(found: Curriculum, draws: int = 2000) -> dict[str, float]:
    counts = Counter(found.draw(number).id for number in range(draws))
    return {task: count / draws for task, count in counts.items()}


def test_tasks_outside_the_band_are_drawn_seldom(tasks) -> None:
    """Given a task always solved, one never, one sometimes, one unknown, then the last two are drawn ten times as often."""
    found = curriculum(tasks, outside_weight=0.1, band_minimum=4)
    for _ in range(8):
        found.record(tasks[0].digest, 1.0)
        found.record(tasks[1].digest, 0.0)
    for number in range(8):
        found.record(tasks[2].digest, float(number % 2))
    drawn = shares(found)
    assert drawn["t0"] == pytest.approx(0.1 / 2.2, abs=0.02)
    assert drawn["t1"] == pytest.approx(0.1 / 2.2, abs=0.02)
    assert drawn["t2"] == pytest.approx(1 / 2.2, abs=0.04)
    assert drawn["t3"] == pytest.approx(1 / 2.2, abs=0.04)
    assert found.shares() | {"horizon": 0} == {
        "tasks_below_band": 0.25,
        "tasks_in_band": 0.25,
        "tasks_above_band": 0.25,
        "tasks_unknown": 0.25,
        "horizon": 0,
    }


def test_a_task_that_has_become_possible_comes_back(tasks) -> None:
    found = curriculum(tasks, band_window=4, outside_weight=0.0)
    for _ in range(4):
        found.record(tasks[0].digest, 0.0)
    assert "t0" not in shares(found, 200)
    for _ in range(2):
        found.record(tasks[0].digest, 1.0)
    assert shares(found, 200)["t0"] > 0.1


def test_the_same_history_gives_the_same_prompts(tasks) -> None:
    one, other = curriculum(tasks), curriculum(tasks)
    assert [one.draw(n).id for n in range(20)] == [other.draw(n).id for n in range(20)]


def test_episodes_without_a_verdict_change_nothing(tasks) -> None:
    found = curriculum(tasks, band_minimum=1)
    found.record(tasks[0].digest, None)
    assert found.pass_rate(tasks[0].digest) is None


def test_the_horizon_doubles_once_the_policy_succeeds_under_it(tasks) -> None:
    found = curriculum(tasks, horizon_start=2, horizon_window=4, horizon_success=0.5)
    assert found.horizon == 2
    for reward in (0.0, 1.0, 0.0, 1.0):
        found.record(tasks[0].digest, reward, turns=2)
    assert found.horizon == 4
    for _ in range(3):
        found.record(tasks[0].digest, 1.0, turns=2)  # begun under the shorter horizon: says nothing about this one
    assert found.horizon == 4
    for _ in range(4):
        found.record(tasks[0].digest, 1.0, turns=4)
    assert found.horizon == 8
    for _ in range(8):
        found.record(tasks[0].digest, 1.0, turns=8)
    assert found.horizon == 8, "never beyond the profile's"


def test_a_task_whose_image_does_not_build_is_left_out(tasks) -> None:
    found = curriculum(tasks)
    for one in tasks[1:]:
        found.leave_out(one.digest)
    assert {found.draw(n).id for n in range(20)} == {"t0"}
    found.leave_out(tasks[0].digest)
    with pytest.raises(RolloutsStalled, match="no task is left"):
        found.draw(0)
