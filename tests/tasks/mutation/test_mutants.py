"""Each kind of mistake is made where a person could make it; the choice among many is seeded and without duplicates."""

from __future__ import annotations

import ast
from collections import Counter
from itertools import islice

import pytest

from agentgym.tasks.mutation.mutants import mutants_of, shuffled, sites_of
from agentgym.tasks.mutation.operators import OPERATORS

EXAMPLES = {
    "comparison_boundary": ("return a < b", {"return a <= b"}),
    "comparison_opposite": ("return a not in b", {"return a in b"}),
    "comparison_direction": ("return a >= b", {"return a <= b"}),
    "arithmetic": ("a += b - 1", {"a -= b - 1", "a += b + 1"}),
    "boolean": ("return a and b", {"return a or b"}),
    "lost_not": ("return not a", {"return a"}),
    "off_by_one": ("return a[3]", {"return a[4]", "return a[2]"}),
    "swapped_arguments": ("return f(a, b, c=1)", {"return f(b, a, c=1)"}),
    "dropped_else": ("if a:\n        b = 1\n    else:\n        b = 2", {"if a:\n        b = 1"}),
    "dropped_guard": ("if a:\n        return b", {"pass"}),
    "dropped_statement": ("a.append(b)", {"pass"}),
    "missing_await": ("return await a", {"return a"}),
    "wrong_exit": ("for x in a:\n        continue", {"for x in a:\n        break"}),
    "wrong_return": ("return True", {"return False"}),
    "wrong_name": ("return max(a, b)", {"return min(a, b)"}),
    "wrong_slice": ("return a[b:]", {"return a[:b]"}),
}


def module(body: str) -> str:
    return f"async def function(a, b):\n    {body}\n"


@pytest.mark.parametrize("operator", EXAMPLES)
def test_an_operator_makes_its_mistake(operator):
    body, expected = EXAMPLES[operator]

    found = {mutant.source for mutant in mutants_of(sites_of("m.py", module(body))) if mutant.operator == operator}

    assert {ast.dump(ast.parse(source)) for source in found} == {ast.dump(ast.parse(module(text))) for text in expected}


def test_defaults():
    text = "def function(a=True, b=3, c='x', d=None):\n    return a\n"

    found = {
        mutant.source.splitlines()[0]
        for mutant in mutants_of(sites_of("m.py", text))
        if mutant.operator == "wrong_default"
    }

    assert found == {
        "def function(a=False, b=3, c='x', d=None):",
        "def function(a=True, b=4, c='x', d=None):",
        "def function(a=True, b=3, c='', d=None):",
    }


def test_every_operator_has_an_example():
    assert set(EXAMPLES) | {"wrong_default"} == set(OPERATORS)


TEXT = '''\
LIMIT = 3 + 4


class Thing:
    @decorator(1 + 2)
    def method(self, x: int = 3) -> "list[1]":
        """1 < 2"""
        if x < 0:  # a comment stays
            raise ValueError(x)
        return [y for y in range(x) if y % 2 == 1 and y > 1]
'''


def test_only_logic_inside_of_functions_is_touched():
    mutants = list(mutants_of(sites_of("m.py", TEXT)))

    assert mutants
    for mutant in mutants:
        head, _, body = mutant.source.partition("    def method")
        assert head == TEXT.partition("    def method")[0]
        assert '-> "list[1]"' in body
        assert '"""1 < 2"""' in body
        assert mutant.function == "Thing.method"


def test_formatting_and_comments_stay():
    boundary = next(mutant for mutant in mutants_of(sites_of("m.py", TEXT)) if mutant.operator == "comparison_boundary")

    assert "        if x <= 0:  # a comment stays\n" in boundary.source


def test_no_two_mutants_are_the_same_program_and_none_is_the_original():
    trees = [ast.dump(ast.parse(mutant.source)) for mutant in mutants_of(sites_of("m.py", TEXT))]

    assert len(set(trees)) == len(trees)
    assert ast.dump(ast.parse(TEXT)) not in trees


def test_the_order_is_seeded_and_covers_functions_evenly():
    text = TEXT + "\n\ndef other(a, b):\n    return a < b and a + 1 > 2\n"

    def keys(seed: int) -> list[str]:
        return [site.key for site in shuffled(sites_of("m.py", text), seed)]

    assert keys(1) == keys(1)
    assert keys(1) != keys(2)
    assert sorted(keys(1)) == sorted(keys(2))
    assert {site.function for site in islice(shuffled(sites_of("m.py", text), 1), 2)} == {"Thing.method", "other"}


def test_the_first_bugs_of_many_modules_are_of_many_kinds():
    text = "def steps(a, b):\n    return [a + 1, b + 2, 3, 4, 5, 6, 7, 8, 9] if a < b and a == 10 else [11, 12, 13]\n"

    firsts = Counter(next(shuffled(sites_of(f"m{number}.py", text), 0)).operator for number in range(60))

    # by their places alone, 50 of the 60 would be off by one
    assert firsts.keys() == {site.operator for site in sites_of("m.py", text)}
    assert max(firsts.values()) < 25


def test_a_module_that_does_not_parse_has_no_sites():
    assert sites_of("m.py", "def broken(:\n") == []


def test_a_mutant_knows_its_wrong_lines():
    text = module("c = (\n        a\n        - b\n    )\n    return c * 2")

    found = {mutant.wrong for mutant in mutants_of(sites_of("m.py", text)) if mutant.operator == "arithmetic"}

    assert found == {("        + b",), ("    return c + 2",)}


def test_a_forgotten_branch_has_no_wrong_line():
    text = module("if a:\n        b = 1\n    else:\n        b = 2")

    found = [mutant.wrong for mutant in mutants_of(sites_of("m.py", text)) if mutant.operator == "dropped_else"]

    assert found == [()]
