from search import contains, count, lower_bound

ITEMS = [1, 3, 3, 3, 7, 9]


def test_lower_bound():
    assert [lower_bound(ITEMS, value) for value in (0, 1, 2, 3, 4, 9, 10)] == [0, 0, 1, 1, 4, 5, 6]


def test_contains():
    assert contains(ITEMS, 7)
    assert not contains(ITEMS, 8)
    assert not contains(ITEMS, 10)
    assert not contains([], 1)


def test_count():
    assert [count(ITEMS, value) for value in (3, 9, 4)] == [3, 1, 0]
