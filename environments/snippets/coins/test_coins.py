from coins import fewest, ways


def test_fewest():
    assert fewest(0, [1, 5]) == 0
    assert fewest(11, [1, 2, 5]) == 3
    assert fewest(6, [1, 3, 4]) == 2
    assert fewest(3, [2]) is None
    assert fewest(4, [2]) == 2


def test_ways():
    assert ways(0, [1]) == 1
    assert ways(5, [1, 2, 5]) == 4
    assert ways(3, [2]) == 0
    assert ways(10, [10]) == 1
