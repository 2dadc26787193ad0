from pairs import closest_pair, count_pairs, two_sum


def test_two_sum():
    assert two_sum([2, 7, 11], 18) == (1, 2)


def test_two_sum_first():
    assert two_sum([1, 2, 3, 4], 5) == (1, 2)


def test_no_sum():
    assert two_sum([1, 2], 9) is None


def test_not_twice_the_same():
    assert two_sum([4, 1], 8) is None


def test_count_pairs():
    assert count_pairs([1, 3, 5, 3], 2) == 2


def test_closest_pair():
    assert closest_pair([9, 1, 5, 6]) == (5, 6)


def test_first_closest_pair():
    assert closest_pair([1, 2, 8, 9]) == (1, 2)


def test_no_pair():
    assert closest_pair([1]) is None
