import pytest
from graph import order, reachable, shortest

GRAPH = {"a": ["b", "c"], "b": ["d"], "c": ["d", "e"], "d": ["f"], "e": ["f"], "f": []}


def test_shortest():
    assert shortest(GRAPH, "a", "f") == ["a", "b", "d", "f"]
    assert shortest(GRAPH, "a", "a") == ["a"]
    assert shortest(GRAPH, "f", "a") is None


def test_reachable():
    assert reachable(GRAPH, "c") == {"c", "d", "e", "f"}
    assert reachable({"x": ["x"]}, "x") == {"x"}


def test_order():
    assert order(GRAPH) == ["a", "b", "c", "d", "e", "f"]
    assert order({"b": ["a"]}) == ["b", "a"]
    with pytest.raises(ValueError):
        order({"a": ["b"], "b": ["a"]})
