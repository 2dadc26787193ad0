from lists import chunks, flatten, rotate, unique


def test_chunks():
    assert chunks([1, 2, 3, 4, 5], 2) == [[1, 2], [3, 4], [5]]
    assert chunks([], 3) == []


def test_flatten():
    assert flatten([1, [2, [3, []], 4]]) == [1, 2, 3, 4]


def test_unique():
    assert unique([3, 1, 3, 2, 1]) == [3, 1, 2]


def test_rotate():
    assert rotate([1, 2, 3, 4], 1) == [2, 3, 4, 1]
    assert rotate([1, 2, 3], 4) == [2, 3, 1]
    assert rotate([1, 2, 3], -1) == [3, 1, 2]
    assert rotate([], 2) == []
