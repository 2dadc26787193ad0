"""The behaviour of one episode: what it did, counted, and which of the named behaviours it showed.

A behaviour is a yes/no question about one trajectory, so that P(success | behaviour) has a meaning. First pass and last
break are those of the tests the policy ran itself; hidden tests were not in the sandbox while it acted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentgym.observe.actions import Action, Kind, action_of, same_file
from agentgym.observe.suspicion import Flag, is_test_file, suspicions
from agentgym.store.filter import TrajectorySummary
from agentgym.store.records import Step, Termination

BEHAVIOURS: Mapping[str, str] = {
    "invalid_call": "made a call that could not be executed",
    "failed_command": "a command or edit ended with an error",
    "repeated_action": "did exactly what it had done before, with the same result",
    "loop": "went round in a cycle of the same steps three times or more",
    "edited": "changed a file",
    "edit_without_read": "changed a file whose content it had not looked at",
    "ran_tests": "ran tests itself",
    "tests_after_last_edit": "ran tests after its last change",
    "tests_before_submit": "submitted, having run tests after its last change",
    "saw_pass": "saw a test run pass",
    "broke_after_pass": "saw a test run fail after one had passed (last break after first pass)",
    "submitted_failing": "submitted although its last test run had failed",
    "truncated_observation": "was shown an observation that had been cut",
    "suspicious": "raised a flag of suspicion",
}
"""Every named behaviour, in words."""

LOOP_TIMES = 3
LOOP_LENGTH = 4


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One trajectory, reduced. success: None without a verdict. seconds: all phases together. first_pass, last_break:
    step indices of the policy's own test runs. shown: names in `BEHAVIOURS`. flags: what looks like reward hacking."""

    id: str
    task_id: str
    success: bool | None
    reward: float | None
    termination: Termination
    version: int | None
    calls: int
    steps: int
    tokens: int
    action_tokens: int
    seconds: float
    tools: Mapping[str, int]
    kinds: Mapping[str, int]
    invalid: int
    repeated: int
    longest_loop: int
    test_runs: int
    first_pass: int | None
    last_break: int | None
    shown: frozenset[str]
    flags: tuple[Flag, ...]


def behaviour_of(
    summary: TrajectorySummary,
    steps: Sequence[Step],
    *,
    patch: str = "",
    timings: Mapping[str, float] | None = None,
    notes: Sequence[str] = (),
    test_paths: Sequence[str] = (),
) -> Behaviour:
    """notes: the verifier's. test_paths: globs of the files that the task's tests own."""
    actions = [action_of(index, step) for index, step in enumerate(steps)]
    flags = suspicions(actions, steps, patch=patch, notes=notes, test_paths=test_paths)
    keys = [json.dumps([one.tool, dict(one.arguments), one.observation], sort_keys=True, default=str) for one in steps]
    tests = [action for action in actions if Kind.TEST in action.kinds]
    first_pass = next((one.index for one in tests if one.passed), None)
    breaks = [one.index for one in tests if one.passed is False]
    facts = {
        "invalid": sum(not step.valid or not step.tool for step in steps),
        "repeated": len(keys) - len(set(keys)),
        "longest_loop": _longest_loop(keys),
        "test_runs": len(tests),
        "first_pass": first_pass,
        "last_break": breaks[-1] if breaks else None,
    }
    return Behaviour(
        id=summary.id,
        task_id=summary.task_id,
        success=None if summary.reward is None else summary.reward >= 1,
        reward=summary.reward,
        termination=summary.termination,
        version=summary.version_max,
        calls=summary.calls,
        steps=len(steps),
        tokens=summary.tokens,
        action_tokens=summary.action_tokens,
        seconds=sum((timings or {}).values()),
        tools=Counter(step.tool or "(none)" for step in steps),
        kinds=Counter(kind.value for action in actions for kind in action.kinds),
        shown=frozenset(_shown(summary, steps, actions, tests, facts, flags)),
        flags=flags,
        **facts,
    )


def _shown(
    summary: TrajectorySummary,
    steps: Sequence[Step],
    actions: Sequence[Action],
    tests: Sequence[Action],
    facts: Mapping[str, int | None],
    flags: Sequence[Flag],
) -> list[str]:
    edits = [action.index for action in actions if Kind.EDIT in action.kinds and action.edits]
    last_edit = edits[-1] if edits else -1
    submitted = summary.termination is Termination.SUBMITTED
    tested_after = bool(edits) and any(one.index >= last_edit for one in tests)
    first_pass, last_break = facts["first_pass"], facts["last_break"]
    answers = {
        "invalid_call": bool(facts["invalid"]),
        "failed_command": any(step.valid and step.exit_code for step in steps),
        "repeated_action": bool(facts["repeated"]),
        "loop": bool(facts["longest_loop"]),
        "edited": bool(edits),
        "edit_without_read": _edits_unread(actions),
        "ran_tests": bool(tests),
        "tests_after_last_edit": tested_after,
        "tests_before_submit": submitted and tested_after,
        "saw_pass": first_pass is not None,
        "broke_after_pass": first_pass is not None and last_break is not None and last_break > first_pass,
        "submitted_failing": submitted and bool(tests) and tests[-1].passed is False,
        "truncated_observation": any(step.truncated for step in steps),
        "suspicious": bool(flags),
    }
    return [name for name, holds in answers.items() if holds]


def _edits_unread(actions: Sequence[Action]) -> bool:
    """A file it wrote itself counts as known, and so does one it makes whole."""
    known: list[str] = []
    for action in actions:
        changed = [path for path in action.edits if path not in action.created and not is_test_file(path)]
        known += action.reads
        if any(not any(same_file(path, seen) for seen in known) for path in changed):
            return True
        known += action.edits
    return False


def _longest_loop(keys: Sequence[str]) -> int:
    """Steps spent in the longest cycle of up to LOOP_LENGTH steps that came LOOP_TIMES times in a row or more."""
    longest = 0
    for length in range(1, LOOP_LENGTH + 1):
        run = length
        for index in range(length, len(keys)):
            run = run + 1 if keys[index] == keys[index - length] else length
            if run >= length * LOOP_TIMES:
                longest = max(longest, run)
    return longest
