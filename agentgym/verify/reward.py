"""From verdicts to a reward: outcome 0/1 by default, a vector per group beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agentgym.tasks.model import Task
from agentgym.verify.grade import Grade

PASSED, FAILED, ERROR, SKIPPED, MISSING = "passed", "failed", "error", "skipped", "missing"
_ORDER = (PASSED, SKIPPED, MISSING, ERROR, FAILED)


def worst(verdicts: Iterable[str]) -> str:
    """A test reported twice is as good as its worst report."""
    return max(verdicts, key=_ORDER.index, default=MISSING)


def expected_ids(task: Task) -> tuple[str, ...]:
    """FAIL_TO_PASS then PASS_TO_PASS, each id once."""
    return tuple(dict.fromkeys((*task.fail_to_pass, *task.pass_to_pass)))


def vector_of(task: Task, verdicts: Mapping[str, str]) -> dict[str, float]:
    """Fraction of each non-empty group that passed, in [0, 1]: the two that every task has, and its own."""
    groups = {"fail_to_pass": task.fail_to_pass, "pass_to_pass": task.pass_to_pass, **task.groups}
    return {name: sum(verdicts.get(test) == PASSED for test in ids) / len(ids) for name, ids in groups.items() if ids}


def outcome(task: Task, verdicts: Mapping[str, str]) -> float:
    """1.0 where every expected test passed, and at least one was expected; else 0.0."""
    ids = expected_ids(task)
    return float(bool(ids) and all(verdicts.get(test) == PASSED for test in ids))


def fraction_passed(task: Task, verdicts: Mapping[str, str]) -> float:
    """The share of expected tests that passed: a denser signal, off by default because it pays for doing nothing."""
    ids = expected_ids(task)
    return sum(verdicts.get(test) == PASSED for test in ids) / len(ids) if ids else 0.0


def rewarded(task: Task, verdicts: Mapping[str, str], *, log: str, notes: tuple[str, ...], judge: str) -> Grade:
    """The grade that verdicts amount to, by the task's own rule."""
    reward = fraction_passed(task, verdicts) if task.reward == "fraction" else outcome(task, verdicts)
    return Grade(reward, verdicts, vector_of(task, verdicts), log=log, notes=notes, judge=judge)


def no_solution(task: Task, why: str) -> Grade:
    """The grade of work that never got to the tests."""
    verdicts = dict.fromkeys(expected_ids(task), MISSING)
    return Grade(reward=0.0, verdicts=verdicts, vector=vector_of(task, verdicts), log=why, notes=(why,))
