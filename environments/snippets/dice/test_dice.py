from dice import counts, full_house, score, straight


def test_counts():
    assert counts([1, 6, 6, 3, 1]) == [2, 0, 1, 0, 0, 2]


def test_full_house():
    assert full_house([2, 2, 5, 5, 5])


def test_no_full_house():
    assert not full_house([2, 2, 5, 5, 1])


def test_straight():
    assert straight([3, 4, 2, 6, 6]) == 3


def test_long_straight():
    assert straight([6, 5, 4, 3, 2]) == 5


def test_score_straight():
    assert score([1, 2, 3, 4, 6]) == 30


def test_score_full_house():
    assert score([1, 1, 2, 2, 2]) == 25


def test_score_sum():
    assert score([1, 2, 3, 6, 6]) == 18
