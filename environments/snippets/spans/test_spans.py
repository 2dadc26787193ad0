from spans import length, merge, overlap


def test_merge():
    assert merge([(5, 7), (1, 3), (2, 4)]) == [(1, 4), (5, 7)]
    assert merge([(1, 2), (2, 3)]) == [(1, 3)]
    assert merge([(1, 9), (2, 3)]) == [(1, 9)]
    assert merge([]) == []


def test_overlap():
    assert overlap((1, 5), (3, 8)) == (3, 5)
    assert overlap((1, 3), (3, 5)) is None
    assert overlap((0, 9), (2, 4)) == (2, 4)


def test_length():
    assert length([(0, 2), (1, 4), (6, 7)]) == 5
