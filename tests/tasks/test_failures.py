"""What is told of a failing test is read from pytest's output as it is."""

from __future__ import annotations

from agentgym.tasks.failures import reasons

LOG = """\
=================================== FAILURES ===================================
___________________________ TestNew.test_kind[a - b] ___________________________

    def test_kind(self):
        d = {}
        dpath.new(d, "a/0")
>       assert isinstance(d["a"], list)
E       AssertionError: assert False

tests/test_new.py:60: AssertionError
_________________________________ test_raises __________________________________

    def test_raises():
>       half("x")

tests/test_new.py:70:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _

    def half(n):
>       return n // 2
E       TypeError: unsupported operand

lib.py:2: TypeError
=========================== short test summary info ============================
FAILED tests/test_new.py::TestNew::test_kind[a - b] - AssertionError: assert False
FAILED tests/test_new.py::test_raises - TypeError: unsupported operand
FAILED tests/test_new.py::test_short - assert 3 == 2
"""


def test_the_statement_and_the_error_are_joined():
    assert reasons(LOG, ["tests/test_new.py::test_raises"]) == {
        "tests/test_new.py::test_raises": 'half("x") fails with TypeError: unsupported operand'
    }


def test_an_error_that_says_nothing_is_left_out():
    test = "tests/test_new.py::TestNew::test_kind[a - b]"

    assert reasons(LOG, [test]) == {test: 'assert isinstance(d["a"], list)'}


def test_without_a_traceback_the_summary_is_taken():
    assert reasons(LOG, ["tests/test_new.py::test_short"]) == {"tests/test_new.py::test_short": "assert 3 == 2"}


def test_what_the_log_does_not_hold_is_not_made_up():
    assert reasons(LOG, ["tests/test_new.py::test_other"]) == {}
