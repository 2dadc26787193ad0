from flatten import chunks, depth_of, flatten


def test_flatten():
    assert flatten([1, [2, [3]]]) == [1, 2, [3]]


def test_flatten_deeper():
    assert flatten([1, [2, [3]]], 2) == [1, 2, 3]


def test_flatten_nothing():
    assert flatten([[1]], 0) == [[1]]


def test_depth():
    assert depth_of([1, [2, [3]]]) == 3


def test_depth_of_a_number():
    assert depth_of(4) == 0


def test_empty():
    assert depth_of([]) == 1


def test_chunks():
    assert chunks([1, 2, 3, 4, 5], 2) == [[1, 2], [3, 4], [5]]
