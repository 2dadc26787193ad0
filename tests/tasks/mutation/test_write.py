"""An instruction tells what fails, as far as that does not tell where."""

from __future__ import annotations

import pytest

from agentgym.tasks.model import TaskError
from agentgym.tasks.mutation.mutants import Mutant, function_text
from agentgym.tasks.mutation.sets import deal, parse_counts
from agentgym.tasks.mutation.trial import Failure, Outcome
from agentgym.tasks.mutation.write import Show, instruction

SOURCE = "def half(number):\n    return number // 2 + 1\n"
MUTANT = Mutant("halves.py", "off_by_one", 2, "half", 2, SOURCE, "0" * 12, ("    return number // 2 + 1",))


def told(what: str, at: str = "assert half(4) == 2", show: Show = "nothing") -> str:
    return instruction(MUTANT, Outcome({"test_halves.py::test_half": Failure(at, what)}), show=show)


def test_the_failing_statement_and_the_error_are_quoted():
    text = told("assert 3 == 2")

    assert "    assert half(4) == 2\n\nwith\n\n    assert 3 == 2\n" in text
    assert '"half" (`test_halves.py::test_half`)' in text


@pytest.mark.parametrize(
    "message", ["SyntaxError: invalid syntax (halves.py)", "failed on line 2", "tried: return number // 2 + 1"]
)
def test_a_message_that_names_the_place_is_left_out(message):
    assert message not in told(message)


def test_neither_module_nor_line_are_named():
    text = told("assert 3 == 2").replace("test_halves.py", "")

    assert "halves.py" not in text
    assert "return number" not in text


def test_the_whole_module_can_be_shown():
    assert told("assert 3 == 2", show="module").endswith(f"`halves.py` is:\n\n```python\n{SOURCE}```\n")


def test_the_function_alone_can_be_shown():
    text = told("assert 3 == 2", show="function")

    assert text.endswith(f"The mistake is in `half` of `halves.py`:\n\n```python\n{SOURCE}```\n")


def test_the_wrong_line_can_be_shown_too():
    text = told("assert 3 == 2", show="line")

    assert f"```python\n{SOURCE}```\n" in text
    assert text.endswith("What is wrong there:\n\n```python\n    return number // 2 + 1\n```\n")


def test_a_function_is_shown_as_it_stands_in_its_module():
    method = "    @property\n    def size(self):\n        def inner():\n            return 1\n\n        return inner()"
    source = f"import functools\n\n\nclass Box:\n{method}\n\n    def other(self):\n        return 2\n"

    assert function_text(source, "Box.size") == method
    assert function_text(source, "Box.size.inner") == "        def inner():\n            return 1"


def test_other_failing_tests_are_counted():
    noticed = {f"test_halves.py::test_{name}": Failure("", "") for name in ("half", "quarter", "third")}

    assert "2 other tests fail too" in instruction(MUTANT, Outcome(noticed))


def test_sets_are_dealt_evenly():
    kept, held_out = deal(list(range(9)), 3)

    assert held_out == [2, 5, 8]
    assert kept == [0, 1, 3, 4, 6, 7]


def test_counts_are_read():
    assert parse_counts("train=3, modules=2") == {"train": 3, "modules": 2}
    assert sum(parse_counts("default").values()) == 1120


@pytest.mark.parametrize("text", ["trian=3", "train", "train=x", "train=-1"])
def test_other_counts_are_refused(text):
    with pytest.raises(TaskError, match="no set of bugs"):
        parse_counts(text)
