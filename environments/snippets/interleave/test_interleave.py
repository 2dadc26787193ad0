from interleave import cut, deal, interleave, shuffle


def test_interleave():
    assert interleave([1, 3], [2, 4]) == [1, 2, 3, 4]


def test_left_longer():
    assert interleave([1, 3, 5], [2]) == [1, 2, 3, 5]


def test_right_longer():
    assert interleave([1], [2, 4, 6]) == [1, 2, 4, 6]


def test_deal():
    assert deal([1, 2, 3, 4, 5], 2) == [[1, 3, 5], [2, 4]]


def test_cut():
    assert cut([1, 2, 3, 4], 1) == [2, 3, 4, 1]


def test_shuffle():
    assert shuffle([1, 2, 3, 4]) == [1, 3, 2, 4]


def test_shuffle_odd():
    assert shuffle([1, 2, 3, 4, 5]) == [1, 4, 2, 5, 3]
