"""When behaviour ends an episode, and when it does not."""

import pytest

from agentgym.store.records import Step, Termination
from harness.profile import StopRules
from harness.stopping import Watch


def step(tool="bash", observation="", *, valid=True, exit_code=0, **arguments):
    return Step(0, tool, arguments, observation, valid=valid, exit_code=exit_code)


def verdicts(rules, steps):
    watch = Watch(rules)
    return [watch.see(one) for one in steps]


def test_the_same_call_with_the_same_result():
    rules = StopRules(repeated_actions=3)

    assert verdicts(rules, [step(command="ls")] * 3) == [None, None, Termination.REPEATED_ACTIONS]


def test_running_the_tests_again_after_an_edit_is_no_loop():
    steps = [step(command="pytest", observation=f"{i} failed") for i in range(9)]

    assert not any(verdicts(StopRules(repeated_actions=3), steps))


def test_a_cycle_of_calls():
    rules = StopRules(repeated_actions=3, repeated_cycle=2)
    cycle = [step(command="a"), step(command="b")]

    assert verdicts(rules, cycle * 3)[-1] is Termination.REPEATED_ACTIONS
    assert not any(verdicts(rules.model_copy(update={"repeated_cycle": 1}), cycle * 9))
    assert not any(verdicts(rules, [step(command="a"), step(command="b"), step(command="c")] * 5))


def test_failing_edits_whatever_their_arguments_and_whatever_is_looked_at_between():
    rules = StopRules(failing_edits=2)
    failed = [step("edit", command="str_replace", old_str=str(i), exit_code=1) for i in range(2)]
    view = step("edit", command="view")
    worked = step("edit", command="str_replace", old_str="x")

    assert verdicts(rules, [failed[0], view, failed[1]]) == [None, None, Termination.REPEATED_ACTIONS]
    assert not any(verdicts(rules, [failed[0], worked, failed[1]]))


def test_invalid_calls_in_a_row():
    rules = StopRules(invalid_actions=2)
    bad = step("", valid=False)

    assert verdicts(rules, [bad, step(command="ls"), bad, bad]) == [None, None, None, Termination.INVALID_ACTIONS]


@pytest.mark.parametrize("steps", [[step(command="ls")] * 50, [step("", valid=False)] * 50])
def test_zero_switches_a_rule_off(steps):
    assert not any(verdicts(StopRules(repeated_actions=0, invalid_actions=0), steps))
