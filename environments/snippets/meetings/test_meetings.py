from meetings import clash, free, merged


def test_clash():
    assert clash((9, 11), (10, 12))


def test_one_after_the_other():
    assert not clash((9, 10), (10, 11))
    assert not clash((10, 11), (9, 10))


def test_merged():
    assert merged([(13, 14), (9, 11), (10, 12)]) == [(9, 12), (13, 14)]


def test_merged_that_touch():
    assert merged([(9, 10), (10, 11)]) == [(9, 11)]


def test_one_inside_the_other():
    assert merged([(9, 15), (10, 11)]) == [(9, 15)]


def test_free():
    assert free([(10, 11), (13, 14)]) == [(9, 10), (11, 13), (14, 17)]


def test_busy_all_day():
    assert free([(8, 18)]) == []


def test_busy_from_the_start():
    assert free([(9, 12)]) == [(12, 17)]


def test_own_day():
    assert free([], day=(8, 10)) == [(8, 10)]
