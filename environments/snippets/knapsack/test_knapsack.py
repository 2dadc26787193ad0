from knapsack import best_value, greedy


def test_best_value():
    assert best_value([(2, 3), (3, 4), (4, 5)], 5) == 7


def test_each_only_once():
    assert best_value([(1, 5)], 3) == 5


def test_too_heavy():
    assert best_value([(4, 9)], 3) == 0


def test_exact_fit():
    assert best_value([(3, 9), (1, 2)], 3) == 9


def test_greedy():
    assert greedy([("map", 1, 2), ("tent", 4, 9), ("rope", 3, 5)], 5) == ["tent", "map"]


def test_greedy_exact():
    assert greedy([("a", 2, 1), ("b", 2, 3)], 4) == ["b", "a"]
