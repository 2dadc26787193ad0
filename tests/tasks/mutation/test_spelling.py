"""Another spelling changes names of variables, and nothing that a test could see."""

from __future__ import annotations

import ast
import builtins

from agentgym.tasks.mutation.mutants import function_text, mutants_of, sites_of
from agentgym.tasks.mutation.spelling import free_names, new_names, respelled

MODULE = '''"""Prices."""
import math

RATE = 3
total = 0


class Cart:
    size = 1

    def add(self, price, count=1):
        """Add count things of a price."""
        self.sum = sum(price for _ in range(count))
        return self.sum


def tax(price, rounded=False):
    value = price * RATE
    items = [math.floor(part) for part in (value,)]
    return f"{value} {items}" if rounded else value


def last(list):
    total = list[-1]
    return tax(total, rounded=True)
'''
TESTS = "from prices import Cart, last, tax\n\n\ndef test_add():\n    assert Cart().add(2, count=3) == 6\n"


def test_only_what_nothing_else_refers_to_is_free():
    assert free_names(MODULE, [TESTS]) == ["items", "part", "price", "value"]


def test_a_test_that_cannot_be_read_keeps_whatever_it_may_pass_by_keyword():
    assert "price" not in free_names(MODULE, [TESTS, "print 'old'; tax(price=2)"])


def test_a_spelling_does_the_same():
    text = respelled(MODULE, {"items": "left", "part": "unit", "price": "weight", "value": "mark"})

    assert "def add(self, weight, count=1):" in text
    assert "self.sum = sum(weight for _ in range(count))" in text
    assert 'return f"{mark} {left}" if rounded else mark' in text
    for expression in ("tax(2)", "tax(2, rounded=True)", "last([1, 5])", "Cart().add(2, count=3)"):
        before, after = dict[str, object](), dict[str, object]()
        exec(MODULE, before)
        exec(text, after)
        assert eval(expression, before) == eval(expression, after)


def test_words_are_new_to_the_module_and_seeded():
    names = free_names(MODULE, [TESTS])
    first, again, other = (new_names(names, MODULE, seed) for seed in ("1", "1", "2"))

    assert first == again != other
    assert len(set(first.values())) == len(names)
    assert not any(word in MODULE or word in dir(builtins) for word in first.values())


def test_a_bug_and_its_mend_are_respelled_alike():
    words = new_names(free_names(MODULE, [TESTS]), MODULE, "1")
    mutant = next(one for one in mutants_of(sites_of("prices.py", MODULE)) if one.operator == "arithmetic")
    healthy, wrong = respelled(MODULE, words), respelled(mutant.source, words)

    spelled = mutant.spelled(healthy, wrong, 7)

    assert spelled.key == f"{mutant.key}-7"
    assert spelled.wrong == (f"    {words['value']} = {words['price']} + RATE",)
    assert ast.dump(ast.parse(healthy)) != ast.dump(ast.parse(wrong))
    assert function_text(wrong, "tax") != function_text(mutant.source, "tax")
