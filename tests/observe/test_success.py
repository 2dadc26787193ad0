"""pass@k, its interval and the paired comparison, against closed forms."""

from __future__ import annotations

from itertools import combinations
from math import sqrt

import numpy as np
import pytest

from agentgym.observe.success import Z95, Counts, Outcomes, compare, pass_at_k, wilson


def outcomes(*counts: tuple[int, int], prefix: str = "t") -> Outcomes:
    return Outcomes({f"{prefix}{index}": Counts(solved, graded) for index, (solved, graded) in enumerate(counts)})


@pytest.mark.parametrize(("solved", "graded", "k"), [(0, 4, 2), (1, 4, 2), (2, 5, 3), (5, 5, 5), (3, 8, 1), (3, 8, 8)])
def test_pass_at_k_is_the_share_of_samples_of_k_that_hold_a_success(solved: int, graded: int, k: int) -> None:
    episodes = [1] * solved + [0] * (graded - solved)
    samples = list(combinations(episodes, k))
    found = pass_at_k(outcomes((solved, graded)), k)
    assert found is not None
    assert found.value == pytest.approx(sum(any(sample) for sample in samples) / len(samples))


def test_tasks_weigh_the_same_whatever_their_number_of_episodes() -> None:
    found = pass_at_k(outcomes((10, 10), (0, 1)), 1)
    assert found is not None
    assert (found.value, found.tasks, found.episodes) == (0.5, 2, 11)


def test_tasks_with_fewer_than_k_verdicts_say_nothing_about_pass_at_k() -> None:
    found = pass_at_k(outcomes((1, 4), (0, 1)), 4)
    assert found is not None
    assert (found.value, found.tasks) == (1.0, 1)
    assert pass_at_k(outcomes((1, 1)), 2) is None


@pytest.mark.parametrize(("solved", "tasks"), [(0, 20), (20, 20), (7, 20), (150, 200)])
def test_with_one_episode_per_task_the_interval_is_wilsons(solved: int, tasks: int) -> None:
    """The closed form: the p whose distance from the observed rate is z standard errors at p itself."""
    found = pass_at_k(outcomes(*([(1, 1)] * solved + [(0, 1)] * (tasks - solved))), 1)
    assert found is not None
    for bound in (found.low, found.high):
        assert abs(solved / tasks - bound) == pytest.approx(Z95 * sqrt(bound * (1 - bound) / tasks), abs=1e-9)
    assert found.low <= found.value <= found.high


def test_several_episodes_narrow_the_interval_only_as_far_as_tasks_agree() -> None:
    same, apart = outcomes(*[(4, 8)] * 20), outcomes(*[(8, 8)] * 10, *[(0, 8)] * 10)
    one, other = pass_at_k(same, 1), pass_at_k(apart, 1)
    assert one is not None
    assert other is not None
    assert one.value == other.value == 0.5
    assert other.high - other.low == pytest.approx(np.diff(wilson(0.5, 20))[0]), "eight copies of a verdict are one"
    assert one.high - one.low < other.high - other.low


def test_episodes_without_a_verdict_are_no_zeros() -> None:
    found = Outcomes({"a": Counts(1, 1, 5), "b": Counts(0, 0, 3)})
    estimate = pass_at_k(found, 1)
    assert estimate is not None
    assert (estimate.value, estimate.tasks) == (1.0, 1)


def test_the_paired_difference_is_the_mean_gain_and_its_interval_the_normal_one() -> None:
    """Given many tasks, the bootstrap's interval is mean ± z·sd/√n (its limit), and pairing removes the tasks' spread."""
    draw = np.random.default_rng(3)
    difficulty = draw.random(400)
    a = [(int(x), 10) for x in draw.binomial(10, difficulty)]
    b = [(int(x), 10) for x in draw.binomial(10, np.clip(difficulty + 0.05, 0, 1))]
    found = compare(outcomes(*a), outcomes(*b))
    assert found is not None
    gain = np.array([x[0] - y[0] for x, y in zip(b, a, strict=True)]) / 10
    assert found.difference == pytest.approx(gain.mean())
    half = Z95 * gain.std(ddof=1) / sqrt(400)
    assert found.low == pytest.approx(gain.mean() - half, abs=0.1 * half)
    assert found.high == pytest.approx(gain.mean() + half, abs=0.1 * half)
    unpaired = Z95 * sqrt((np.var([x[0] / 10 for x in a]) + np.var([x[0] / 10 for x in b])) / 400)
    assert found.high - found.low < 2 * unpaired
    assert found.p_value < 0.05
    assert (found.better, found.worse) == ((gain > 0).sum(), (gain < 0).sum())


def test_a_policy_against_itself_differs_by_nothing() -> None:
    same = outcomes((3, 4), (0, 4), (1, 4))
    found = compare(same, same)
    assert found is not None
    assert (found.difference, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_only_tasks_that_both_tried_count() -> None:
    found = compare(outcomes((1, 1), (0, 1)), outcomes((1, 1)))
    assert found is not None
    assert found.tasks == 1
    assert compare(outcomes((1, 1)), outcomes((1, 1), prefix="other")) is None
