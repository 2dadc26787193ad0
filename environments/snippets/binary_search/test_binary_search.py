from binary_search import contains, count, lower_bound


def test_lower_bound():
    assert lower_bound([1, 3, 5], 3) == 1


def test_between():
    assert lower_bound([1, 3, 5], 4) == 2


def test_beyond():
    assert lower_bound([1, 3, 5], 9) == 3


def test_contains():
    assert contains([1, 3, 5], 5)


def test_contains_not():
    assert not contains([1, 3, 5], 4)


def test_larger_than_all():
    assert not contains([1, 3], 7)


def test_count():
    assert count([1, 3, 3, 3, 5], 3) == 3
